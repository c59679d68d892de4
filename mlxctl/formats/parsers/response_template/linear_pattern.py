"""Regular expressions in linear time, over text in pieces.

Without backtracking: all threads of an automaton advance together (Thompson; submatches as in Pike's VM), so
no character takes longer than the pattern's size. The dot matches line breaks. Pure.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from mlxctl.formats.parsers.response_template.pattern_syntax import (
    Characters,
    Choice,
    Group,
    Node,
    Repeat,
    Sequence,
    parse,
)

MAX_PATTERN_CHARS = 512
_MAX_INSTRUCTIONS = 250


class Match(NamedTuple):
    """A match, by characters since the scanner began."""

    start: int
    end: int
    groups: Mapping[str, str]


# An instruction: characters to read, the places to go to (the preferred one first), a submatch's border, the
# end of the text, or a match.
_Instruction = tuple[Literal["read", "go", "border", "end", "match"], object]
_Borders = Mapping[str, int]


class LinearPattern:
    """A compiled pattern."""

    def __init__(self, source: str) -> None:
        """Raises ValueError for a pattern too large or beyond the subset."""
        if len(source) > MAX_PATTERN_CHARS:
            raise ValueError(f"a pattern has more than {MAX_PATTERN_CHARS} characters")
        try:
            self.node = parse(source)
            self.program: list[_Instruction] = []
            self._add(self.node)
        except ValueError as error:
            raise ValueError(f"the pattern {source!r} is not supported: {error}") from error
        self.program.append(("match", None))
        if self._can_be_empty():
            raise ValueError(f"the pattern {source!r} is not supported: it matches where there is nothing")
        firsts = {each.source for each in self._firsts()}
        self.first = re.compile("|".join(sorted(firsts)), re.DOTALL)

    @property
    def groups(self) -> frozenset[str]:
        """Names of its groups."""
        return frozenset(str(value)[1:] for kind, value in self.program if kind == "border")

    def _add(self, node: Node) -> None:
        program = self.program
        if len(program) > _MAX_INSTRUCTIONS:
            raise ValueError("it is too large")
        match node:
            case Characters():
                program.append(("read", node))
            case Group(inner, name):
                program.append(("border", f"<{name}"))
                self._add(inner)
                program.append(("border", f">{name}"))
            case Sequence(nodes):
                for each in nodes:
                    self._add(each)
            case Choice(nodes):
                self._add_choice(nodes)
            case Repeat():
                self._add_repeat(node)
            case _:
                program.append(("end", None))

    def _add_choice(self, nodes: tuple[Node, ...]) -> None:
        ends = []
        for index, each in enumerate(nodes):
            fork = len(self.program)
            if index < len(nodes) - 1:
                self.program.append(("go", ()))
            self._add(each)
            if index < len(nodes) - 1:
                ends.append(len(self.program))
                self.program.append(("go", ()))
                self.program[fork] = ("go", (fork + 1, len(self.program)))
        for end in ends:
            self.program[end] = ("go", (len(self.program),))

    def _add_repeat(self, repeat: Repeat) -> None:
        for _ in range(repeat.least):
            self._add(repeat.node)
        if repeat.most is None:
            fork = len(self.program)
            self.program.append(("go", ()))
            self._add(repeat.node)
            self.program.append(("go", (fork,)))
            self.program[fork] = ("go", _ordered(fork + 1, len(self.program), is_lazy=repeat.is_lazy))
            return
        forks = []
        for _ in range(repeat.most - repeat.least):
            forks.append(len(self.program))
            self.program.append(("go", ()))
            self._add(repeat.node)
        for fork in forks:
            self.program[fork] = ("go", _ordered(fork + 1, len(self.program), is_lazy=repeat.is_lazy))

    def _can_be_empty(self) -> bool:
        return any(self.program[place][0] in ("match", "end") for place, _ in reachable(self, 0, {}, 0))

    def _firsts(self) -> Iterator[Characters]:
        for place, _ in reachable(self, 0, {}, 0):
            characters = self.program[place][1]
            assert isinstance(characters, Characters)
            yield characters


def _ordered(inside: int, after: int, *, is_lazy: bool) -> tuple[int, int]:
    return (after, inside) if is_lazy else (inside, after)


def reachable(
    pattern: LinearPattern, place: int, borders: _Borders, at: int, seen: set[int] | None = None
) -> Iterator[tuple[int, _Borders]]:
    """Yield what is reached from a place without reading, preferred first."""
    seen = set() if seen is None else seen
    stack = [(place, borders)]
    while stack:
        place, borders = stack.pop()
        if place in seen:
            continue
        seen.add(place)
        kind, value = pattern.program[place]
        if kind == "go":
            assert isinstance(value, tuple)
            stack += [(target, borders) for target in reversed(value)]
        elif kind == "border":
            stack.append((place + 1, {**borders, str(value): at}))
        else:
            yield place, borders


class Scanner:
    """Searches the first match in a text that grows.

    `match` is it, once no further text can change it. With `is_anchored` it begins at the text's start, or
    `is_dead`.
    """

    def __init__(self, pattern: LinearPattern, *, is_anchored: bool = False) -> None:
        self.match: Match | None = None
        self._pattern = pattern
        self._is_anchored = is_anchored
        self._text = ""
        self._at = 0
        # Where each began, its place in the program and its borders; the preferred first.
        self._threads: list[tuple[int, int, _Borders]] = []
        self._found: tuple[int, int, _Borders] | None = None

    @property
    def is_dead(self) -> bool:
        """Whether an anchored search has failed."""
        return self._is_anchored and self._at > 0 and not (self._threads or self._found or self.match)

    def feed(self, text: str) -> None:
        """Search on in more text."""
        self._text += text
        while self._at < len(self._text) and self.match is None and not self.is_dead:
            if not (self._threads or self._found or self._is_anchored):
                first = self._pattern.first.search(self._text, self._at)
                if first is None:
                    self._at = len(self._text)
                    return
                self._at = first.start()
            self._step(self._text[self._at])

    def finish(self) -> Match | None:
        """Return the match at the text's end."""
        for start, place, borders in self._threads:
            if self._pattern.program[place][0] == "end":
                self._found = start, self._at, borders
                break
        self._threads = []
        self._settle()
        return self.match

    def _step(self, character: str) -> None:
        threads, self._threads = self._threads, []
        if self._found is None and (not self._is_anchored or self._at == 0):
            threads = [*threads, *((self._at, *each) for each in reachable(self._pattern, 0, {}, self._at))]
        self._at += 1
        seen: set[int] = set()
        for start, place, borders in threads:
            kind, characters = self._pattern.program[place]
            if kind != "read" or character not in characters:  # type: ignore[operator]
                continue
            if not self._follow(start, place + 1, borders, seen):
                break
        self._settle()

    def _follow(self, start: int, place: int, borders: _Borders, seen: set[int]) -> bool:
        """Add the threads from a place on; return whether others may follow."""
        for reached, now in reachable(self._pattern, place, borders, self._at, seen):
            if self._pattern.program[reached][0] == "match":
                self._found = start, self._at, now
                return False
            self._threads.append((start, reached, now))
        return True

    def _settle(self) -> None:
        if self._found is None or self._threads:
            return
        start, end, borders = self._found
        names = {border[1:] for border in borders}
        groups = {
            name: self._text[borders[f"<{name}"] : borders[f">{name}"]]
            for name in names
            if f">{name}" in borders
        }
        self.match = Match(start, end, groups)


def matches(pattern: LinearPattern, text: str, *, most: int) -> Iterator[Match]:
    """Yield at most `most` matches in a whole text, in order."""
    begin = 0
    for _ in range(most):
        scanner = Scanner(pattern)
        scanner.feed(text[begin:])
        found = scanner.finish()
        if found is None:
            return
        yield Match(begin + found.start, begin + found.end, found.groups)
        begin += found.end
