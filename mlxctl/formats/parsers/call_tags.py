"""The tags of a format with a tag for each argument."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from mlxctl.formats.parsers.argument_values import value_as_json
from mlxctl.formats.parsers.declarations import WHITESPACE
from mlxctl.formats.parsers.json_value import quote
from mlxctl.formats.parsers.markers import is_control_token
from mlxctl.formats.parsers.schemas import SchemaNode

MAX_TAG_CHARS = 256

Key = tuple[str, bool | None]
"""An argument's name, and whether it is a string, if its tag tells."""


def skip_white_space(text: str, at: int, limit: int | None = None) -> int:
    """Return the position of the next other character, within the limit."""
    end = len(text) if limit is None else min(len(text), at + limit)
    while at < end and text[at] in WHITESPACE:
        at += 1
    return at


def compare(text: str, at: int, literal: str) -> bool | None:
    """Whether the literal stands here; None while it may still follow."""
    if text.startswith(literal, at):
        return True
    return None if literal.startswith(text[at : at + len(literal)]) else False


def plain_key(tag: str) -> Key | None:
    """Parse a tag that holds only the argument's name, perhaps quoted.

    The type is left to the schema.
    """
    name = tag.strip().strip("\"'")
    return (name, None) if name and "\n" not in name else None


def closed_key(closer: str) -> Callable[[str], Key | None]:
    """Return a parser of keys that end with their own closing tag.

    A line break may follow, which models sometimes escape.
    """

    def read(tag: str) -> Key | None:
        name, found, rest = tag.partition(closer)
        return (
            (name.strip(), None) if found and name.strip() and not rest.replace(r"\n", "").strip() else None
        )

    return read


def plain_value(text: str, schema: SchemaNode) -> str:
    """Return the JSON text of a value without tags."""
    return value_as_json(text, schema.kinds)


def untyped_as_string(text: str, schema: SchemaNode) -> str:
    """Return a value as JSON text; an untyped one is a string."""
    return quote(text) if schema.kinds is None else plain_value(text, schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTags:
    """The tags of a format.

    `call_opener` precedes a tool's name; one of the characters `name_ends` follows it, or all of
    `name_end`, which models may forget. A call without an opener follows the block's marker at once, and
    there is only one. `block_opener` is that marker. `key_opener`, or one of `other_key_openers`, and
    `key_end` enclose what `read_key` parses: the argument's name, and whether it is a string, if the tag
    tells. A value ends with
    `value_closer`, in which `{name}` stands for the argument's name, or before one of `value_ends`, where
    models forget the closer. `trims` is dropped once on both sides of it, or on neither; with
    `trims_sides_alone` on each side where it is. With `has_cdata` a value may be a CDATA section.
    `read_value` converts a value that is no string to JSON text. With `only_available`, a call of another
    tool is text.

    Arguments that are one JSON object may stand between tags that begin with `json_opener` and end with
    `key_end`, and `json_closer`.

    Models forget tags: a call also ends before one of `block_closers`, and a key that ends with `key_closer`
    but has no value is dropped.
    """

    call_opener: str
    block_opener: str = ""
    name_ends: str = ""
    name_end: str = ""
    call_closer: str
    key_opener: str
    other_key_openers: tuple[str, ...] = ()
    key_end: str
    value_closer: str
    key_closer: str = ""
    block_closers: tuple[str, ...] = ()
    value_ends: tuple[str, ...] = ()
    trims: str = ""
    trims_sides_alone: bool = False
    read_key: Callable[[str], Key | None] = plain_key
    has_cdata: bool = False
    only_available: bool = False
    json_opener: str = ""
    json_closer: str = ""
    read_value: Callable[[str, SchemaNode], str] = plain_value

    @property
    def skips_text(self) -> bool:
        """Whether text between two tags is dropped.

        Where tags are control tokens, what follows such text tells that the call goes on.
        """
        return is_control_token(self.key_opener)

    def key_at(self, text: str, at: int) -> tuple[Key, int] | Literal[False] | None:
        """Parse the key behind its opener.

        Returns it and where its value begins; False for other text, None while a key may still follow.
        """
        limit = at + MAX_TAG_CHARS
        end = text.find(self.key_end, at, limit + len(self.key_end))
        line_end = self._line_end_of_key(text, at)
        if line_end >= 0 and (end < 0 or line_end < end):
            if line_end + 1 == len(text):
                return None
            end = end if text[line_end + 1] == self.key_end else line_end
        tag = text[at : limit if end < 0 else end]
        if self.call_closer in tag or self.key_opener in tag:
            return False
        if end < 0:
            return None if len(text) <= limit else False
        key = self.read_key(text[at:end])
        if key is None or key[0].startswith("/"):
            return False
        return key, end + len(self.key_end) * (end != line_end)

    def orphan_end(self, text: str, at: int) -> int | None:
        """Return where a key without a value ends, None for other keys."""
        end = text.find(self.key_closer, at, at + MAX_TAG_CHARS) if self.key_closer else -1
        if end < 0 or any(tag in text[at:end] for tag in (self.key_opener, self.key_end, self.call_closer)):
            return None
        after = skip_white_space(text, end + len(self.key_closer))
        return after if text.startswith((self.key_opener, self.call_closer), after) else None

    def _line_end_of_key(self, text: str, at: int) -> int:
        """Return the line break after an unclosed key, -1 without one.

        Only where values are on lines of their own: there models forget the tag's last character.
        """
        if self.key_end != ">" or self.trims != "\n":
            return -1
        end = text.find("\n", at, at + MAX_TAG_CHARS)
        return end if text[at : max(end, at)].strip() else -1
