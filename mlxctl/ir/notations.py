"""How formats write a call's arguments. Pure values.

Parsers declare them, grammars enforce them.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonNotation:
    """The body of a call is one JSON object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TagNotation:
    """One pair of tags for each argument, in a row.

    Strings are written unchanged, other values as JSON. `begin` precedes a value, with `{name}` for the
    argument's name and `{type}` for the JSON type of its value; where a tag says whether its value is a
    string, `begin_string` precedes strings. `end` follows a value, also with `{name}`. The parser takes one of
    `ends` for a value's end if a tag follows; so it does `next_argument` with the name of another argument, and
    `head` begins the text of a whole call, whose tags are text: no value of a grammar contains these, nor a
    `mark` that is the beginning of every tag. With
    `sections`, the marks of raw text, a string outside of them has no `<`, `&` or line break.
    """

    begin: str
    end: str
    ends: tuple[str, ...]
    head: str
    mark: str = ""
    next_argument: str = ""
    begin_string: str = ""
    sections: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BraceNotation:
    """`a:1,b:[true]`, up to the closing brace.

    Keys are unquoted; strings have the same `mark` on both sides.
    """

    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonNotation:
    """Python's keyword arguments, up to the closing parenthesis."""


Notation = JsonNotation | TagNotation | BraceNotation | PythonNotation
