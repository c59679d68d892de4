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
    string, `begin_string` precedes strings. `end` follows a value, also with `{name}`. With `sections`, the
    marks of raw text, a string outside of them has no `<`, `&` or line break.

    No value of a grammar contains what the parser may not take for text of the value: one of `ends` before a
    tag, `next_argument` before an argument's name, `head`, which begins a whole call, before a tag, and
    `mark`, which is a closing tag that the tokenizer has as a token, or the beginning of every tag.
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
