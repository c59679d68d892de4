"""The tags of a format with a tag for each argument."""

from collections.abc import Callable
from dataclasses import dataclass

from mlxctl.parsers.argument_values import value_as_json
from mlxctl.parsers.json_value import quote
from mlxctl.parsers.markers import is_control_token
from mlxctl.parsers.schemas import SchemaNode


def plain_key(tag: str) -> tuple[str, bool | None] | None:
    """Parse a tag that holds only the argument's name, perhaps quoted.

    The type is left to the schema.
    """
    name = tag.strip().strip("\"'")
    return (name, None) if name and "\n" not in name else None


def closed_key(closer: str) -> Callable[[str], tuple[str, bool | None] | None]:
    """Return a parser of keys that end with their own closing tag.

    A line break may follow, which models sometimes escape.
    """

    def read(tag: str) -> tuple[str, bool | None] | None:
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
    there is only one. `key_opener`, or one of `other_key_openers`, and `key_end` enclose what `read_key`
    parses: the argument's name, and whether it is a string, if the tag tells. A value ends with
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
    read_key: Callable[[str], tuple[str, bool | None] | None] = plain_key
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

    def line_end_of_key(self, text: str, at: int) -> int:
        """Return the line break after an unclosed key, -1 without one.

        Only where values are on lines of their own: there models forget the tag's last character.
        """
        if self.key_end != ">" or self.trims != "\n":
            return -1
        end = text.find("\n", at)
        return end if text[at : max(end, at)].strip() else -1
