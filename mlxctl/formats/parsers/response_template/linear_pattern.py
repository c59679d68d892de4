"""Regular expressions in linear time, over text in pieces.

A subset of Python's: literals, classes, groups, alternatives and repeats, without backtracking. All threads
of an automaton advance together (Thompson; submatches as in Pike's VM), so no character takes longer than
the pattern's size. The dot matches line breaks. Pure.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

MAX_PATTERN_CHARS = 512
_MAX_INSTRUCTIONS = 250
_MAX_REPEATS = 100
_MAX_DEPTH = 20
_MAX_CHARACTERS_KNOWN = 4096

_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_REPEAT = re.compile(r"(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})[?+]?")
_HEX = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4}))")
_NAMED = re.compile(r"\(\?P<([A-Za-z_]\w{0,31})>", re.ASCII)
_WORDS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}


class Match(NamedTuple):
    """A match, by characters since the scanner began."""

    start: int
    end: int
    groups: Mapping[str, str]


class _Characters:
    """A set of characters: one of the text, or a class."""

    __slots__ = ("_known", "source", "text")

    def __init__(self, source: str, text: str = "") -> None:
        self.source, self.text = source, text
        self._known: dict[str, bool] = {}

    def __contains__(self, character: str) -> bool:
        if self.text:
            return character == self.text
        known = self._known.get(character)
        if known is None:
            if len(self._known) >= _MAX_CHARACTERS_KNOWN:
                self._known.clear()
            known = re.fullmatch(self.source, character, re.DOTALL) is not None
            self._known[character] = known
        return known

    @property
    def is_space(self) -> bool:
        """Whether it has white space only."""
        return self.text.isspace() or self.source in (r"\s", r"[\s]", r"[ \n]", r"[\n ]")


@dataclass(frozen=True, slots=True)
class _Repeat:
    node: "_Node"
    least: int
    most: int | None
    is_lazy: bool


@dataclass(frozen=True, slots=True)
class _Group:
    node: "_Node"
    name: str


@dataclass(frozen=True, slots=True)
class _Sequence:
    nodes: tuple["_Node", ...]


@dataclass(frozen=True, slots=True)
class _Choice:
    nodes: tuple["_Node", ...]


_End = Literal["end"]
_Node = _Characters | _Repeat | _Group | _Sequence | _Choice | _End


class _Parser:
    def __init__(self, source: str) -> None:
        self._source, self._at = source, 0
        self._depth = 0

    def parse(self) -> _Node:
        node = self._choice()
        if self._at < len(self._source):
            raise ValueError("it has a bracket too many")
        return node

    def _choice(self) -> _Node:
        nodes = [self._sequence()]
        while self._takes("|"):
            nodes.append(self._sequence())
        return nodes[0] if len(nodes) == 1 else _Choice(tuple(nodes))

    def _sequence(self) -> _Node:
        nodes: list[_Node] = []
        while self._at < len(self._source) and self._source[self._at] not in "|)":
            nodes.append(self._repeated(self._single()))
        return nodes[0] if len(nodes) == 1 else _Sequence(tuple(nodes))

    def _single(self) -> _Node:
        character = self._source[self._at]
        if character == "(":
            return self._group()
        if character == "[":
            return self._class()
        if character == "\\":
            return self._escape()
        self._at += 1
        if character == ".":
            return _Characters(".")
        if character == "$":
            return "end"
        if character in "*+?^":
            raise ValueError(f"it has {character!r} where a character is expected")
        return _Characters(re.escape(character), character)

    def _group(self) -> _Node:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ValueError(f"its groups are nested more than {_MAX_DEPTH} deep")
        named, name = _NAMED.match(self._source, self._at), ""
        if named is not None:
            name, self._at = named[1], named.end()
        elif self._source.startswith("(?:", self._at):
            self._at += 3
        elif self._source.startswith("(?", self._at):
            raise ValueError("it has a group with (?, other than (?: and (?P<name>")
        else:
            self._at += 1
        node = self._choice()
        if not self._takes(")"):
            raise ValueError("it has an open group")
        self._depth -= 1
        return _Group(node, name) if name else node

    def _class(self) -> _Node:
        found = _CLASS.match(self._source, self._at)
        if found is None or "[[" in found[0] or "--" in found[0] or "&&" in found[0]:
            raise ValueError("it has a class that is not closed, or not a plain one")
        self._at = found.end()
        try:
            re.compile(found[0])
        except re.error as error:
            raise ValueError(f"its class {found[0]} is malformed: {error}") from error
        return _Characters(found[0])

    def _escape(self) -> _Node:
        if found := _HEX.match(self._source, self._at):
            self._at = found.end()
            text = chr(int(found[1] or found[2], 16))
            return _Characters(re.escape(text), text)
        character = self._source[self._at + 1 : self._at + 2]
        self._at += 2
        if character and character in "sSwWdD":
            return _Characters("\\" + character)
        if character == "Z":
            return "end"
        if not character or (character.isalnum() and character not in _WORDS):
            raise ValueError(f"it has \\{character}, which is not supported")
        text = _WORDS.get(character, character)
        return _Characters(re.escape(text), text)

    def _repeated(self, node: _Node) -> _Node:
        found = _REPEAT.match(self._source, self._at)
        if found is None:
            return node
        if node == "end" or (found[0].endswith("+") and len(found[0]) > 1):
            raise ValueError(f"it has a repeat {found[0]}, which is not supported")
        self._at = found.end()
        if _REPEAT.match(self._source, self._at):
            raise ValueError("it repeats a repeat")
        least, most = _bounds(found[0])
        if max(least, most or 0) > _MAX_REPEATS:
            raise ValueError(f"it repeats more than {_MAX_REPEATS} times")
        return _Repeat(node, least, most, found[0].endswith("?") and len(found[0]) > 1)

    def _takes(self, text: str) -> bool:
        is_next = self._source.startswith(text, self._at)
        self._at += len(text) * is_next
        return is_next


def _bounds(repeat: str) -> tuple[int, int | None]:
    if repeat[0] in "*+?":
        return int(repeat[0] == "+"), 1 if repeat[0] == "?" else None
    least, comma, most = repeat.rstrip("?").strip("{}").partition(",")
    return int(least), int(least) if not comma else int(most) if most else None


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
            self.node = _Parser(source).parse()
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

    def _add(self, node: _Node) -> None:
        program = self.program
        if len(program) > _MAX_INSTRUCTIONS:
            raise ValueError("it is too large")
        match node:
            case _Characters():
                program.append(("read", node))
            case _Group(inner, name):
                program.append(("border", f"<{name}"))
                self._add(inner)
                program.append(("border", f">{name}"))
            case _Sequence(nodes):
                for each in nodes:
                    self._add(each)
            case _Choice(nodes):
                self._add_choice(nodes)
            case _Repeat():
                self._add_repeat(node)
            case _:
                program.append(("end", None))

    def _add_choice(self, nodes: tuple[_Node, ...]) -> None:
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

    def _add_repeat(self, repeat: _Repeat) -> None:
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

    def _firsts(self) -> Iterator[_Characters]:
        for place, _ in reachable(self, 0, {}, 0):
            characters = self.program[place][1]
            assert isinstance(characters, _Characters)
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

    `match` is it, once no further text can change it. `pending_start` is where it may have begun, None if
    nowhere. With `is_anchored` it begins at the text's start, or `is_dead`.
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
    def pending_start(self) -> int | None:
        """Where a match may have begun that is not final yet."""
        if self.match is not None:
            return None
        starts = [start for start, *_ in self._threads]
        return min([*starts, *([self._found[0]] if self._found else [])], default=None)

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


def literal_core(pattern: LinearPattern) -> list[str] | None:
    """Return the texts that a pattern matches, without white space around.

    None for a pattern with anything else.
    """
    node = pattern.node
    nodes = _without_space(list(node.nodes) if isinstance(node, _Sequence) else [node])
    if len(nodes) == 1 and isinstance(nodes[0], _Choice):
        texts = [_text(choice) for choice in nodes[0].nodes]
        return None if None in texts else [text for text in texts if text]
    text = _text(_Sequence(tuple(nodes)))
    return [text] if text else None


def literal_heads(pattern: LinearPattern) -> list[str] | None:
    """Return the texts that every match begins with, after white space."""
    node = pattern.node
    first, *rest = _without_space(list(node.nodes) if isinstance(node, _Sequence) else [node])
    choices = first.nodes if isinstance(first, _Choice) else (_Sequence((first, *rest)),)
    heads = [_head(choice) for choice in choices]
    return None if "" in heads else heads


def _head(node: _Node) -> str:
    head = ""
    for each in _without_space(list(node.nodes) if isinstance(node, _Sequence) else [node]):
        if not isinstance(each, _Characters) or not each.text:
            break
        head += each.text
    return head


def _text(node: _Node) -> str | None:
    nodes = node.nodes if isinstance(node, _Sequence) else (node,)
    texts = [each.text if isinstance(each, _Characters) else "" for each in nodes]
    return "".join(texts) if all(texts) else None


def _without_space(nodes: list[_Node]) -> list[_Node]:
    is_space: Callable[[_Node], bool] = lambda node: (  # noqa: E731
        node == "end"
        or (isinstance(node, _Repeat) and isinstance(node.node, _Characters) and node.node.is_space)
    )
    while nodes and is_space(nodes[0]):
        nodes = nodes[1:]
    while nodes and is_space(nodes[-1]):
        nodes = nodes[:-1]
    return nodes
