"""The syntax of patterns: a subset of Python's regular expressions.

Literals, classes, groups, alternatives and repeats; no look-around, no back-references. Pure.
"""

import re
from dataclasses import dataclass
from typing import Literal

_MAX_REPEATS = 100
_MAX_DEPTH = 20
_MAX_CHARACTERS_KNOWN = 4096

_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_REPEAT = re.compile(r"(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})[?+]?")
_HEX = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4}))")
_NAMED = re.compile(r"\(\?P<([A-Za-z_]\w{0,31})>", re.ASCII)
_WORDS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}


class Characters:
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
class Repeat:
    """A node `least` to `most` times; None is without end."""

    node: "Node"
    least: int
    most: int | None
    is_lazy: bool


@dataclass(frozen=True, slots=True)
class Group:
    """A named submatch."""

    node: "Node"
    name: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """Nodes one after the other."""

    nodes: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Alternatives, the preferred first."""

    nodes: tuple["Node", ...]


End = Literal["end"]
Node = Characters | Repeat | Group | Sequence | Choice | End


def parse(source: str) -> Node:
    """Return the tree of a pattern. Raises ValueError beyond the subset."""
    return _Parser(source).parse()


class _Parser:
    def __init__(self, source: str) -> None:
        self._source, self._at = source, 0
        self._depth = 0

    def parse(self) -> Node:
        node = self._choice()
        if self._at < len(self._source):
            raise ValueError("it has a bracket too many")
        return node

    def _choice(self) -> Node:
        nodes = [self._sequence()]
        while self._takes("|"):
            nodes.append(self._sequence())
        return nodes[0] if len(nodes) == 1 else Choice(tuple(nodes))

    def _sequence(self) -> Node:
        nodes: list[Node] = []
        while self._at < len(self._source) and self._source[self._at] not in "|)":
            nodes.append(self._repeated(self._single()))
        return nodes[0] if len(nodes) == 1 else Sequence(tuple(nodes))

    def _single(self) -> Node:
        character = self._source[self._at]
        if character == "(":
            return self._group()
        if character == "[":
            return self._class()
        if character == "\\":
            return self._escape()
        self._at += 1
        if character == ".":
            return Characters(".")
        if character == "$":
            return "end"
        if character in "*+?^":
            raise ValueError(f"it has {character!r} where a character is expected")
        return Characters(re.escape(character), character)

    def _group(self) -> Node:
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
        return Group(node, name) if name else node

    def _class(self) -> Node:
        found = _CLASS.match(self._source, self._at)
        if found is None or "[[" in found[0] or "--" in found[0] or "&&" in found[0]:
            raise ValueError("it has a class that is not closed, or not a plain one")
        self._at = found.end()
        try:
            re.compile(found[0])
        except re.error as error:
            raise ValueError(f"its class {found[0]} is malformed: {error}") from error
        return Characters(found[0])

    def _escape(self) -> Node:
        if found := _HEX.match(self._source, self._at):
            self._at = found.end()
            text = chr(int(found[1] or found[2], 16))
            return Characters(re.escape(text), text)
        character = self._source[self._at + 1 : self._at + 2]
        self._at += 2
        if character and character in "sSwWdD":
            return Characters("\\" + character)
        if character == "Z":
            return "end"
        if not character or (character.isalnum() and character not in _WORDS):
            raise ValueError(f"it has \\{character}, which is not supported")
        text = _WORDS.get(character, character)
        return Characters(re.escape(text), text)

    def _repeated(self, node: Node) -> Node:
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
        return Repeat(node, least, most, found[0].endswith("?") and len(found[0]) > 1)

    def _takes(self, text: str) -> bool:
        is_next = self._source.startswith(text, self._at)
        self._at += len(text) * is_next
        return is_next


def _bounds(repeat: str) -> tuple[int, int | None]:
    if repeat[0] in "*+?":
        return int(repeat[0] == "+"), 1 if repeat[0] == "?" else None
    least, comma, most = repeat.rstrip("?").strip("{}").partition(",")
    return int(least), int(least) if not comma else int(most) if most else None


def literal_core(node: Node) -> list[str] | None:
    """Return the texts that a pattern matches, without white space around.

    None for a pattern with anything else.
    """
    nodes = _without_space(list(node.nodes) if isinstance(node, Sequence) else [node])
    if len(nodes) == 1 and isinstance(nodes[0], Choice):
        texts = [_text(choice) for choice in nodes[0].nodes]
        return None if None in texts else [text for text in texts if text]
    text = _text(Sequence(tuple(nodes)))
    return [text] if text else None


def literal_heads(node: Node) -> list[str] | None:
    """Return the texts that every match begins with, after white space."""
    nodes = _without_space(list(node.nodes) if isinstance(node, Sequence) else [node])
    if not nodes:
        return None
    first, *rest = nodes
    choices = first.nodes if isinstance(first, Choice) else (Sequence((first, *rest)),)
    heads = [_head(choice) for choice in choices]
    return None if "" in heads else heads


def _head(node: Node) -> str:
    head = ""
    for each in _without_space(list(node.nodes) if isinstance(node, Sequence) else [node]):
        if not isinstance(each, Characters) or not each.text:
            break
        head += each.text
    return head


def _text(node: Node) -> str | None:
    nodes = node.nodes if isinstance(node, Sequence) else (node,)
    texts = [each.text if isinstance(each, Characters) else "" for each in nodes]
    return "".join(texts) if all(texts) else None


def _without_space(nodes: list[Node]) -> list[Node]:
    while nodes and _is_space(nodes[0]):
        nodes = nodes[1:]
    while nodes and _is_space(nodes[-1]):
        nodes = nodes[:-1]
    return nodes


def _is_space(node: Node) -> bool:
    repeated = node.node if isinstance(node, Repeat) else None
    return node == "end" or (isinstance(repeated, Characters) and repeated.is_space)
