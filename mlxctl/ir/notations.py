"""How a format writes the arguments of a call: read by parsers, enforced by grammars. Pure values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonNotation:
    """One JSON object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TagNotation:
    """One pair of tags for each argument, behind the other: strings between them as they are, anything else
    as JSON.

    `begin` is what stands before a value, with `{name}` for the argument's name; where a tag says whether its
    value is a string, `begin_string` is what stands before one of those. `end` stands behind a value, with
    the name again where it has `{name}`. No value holds one of `ends`, which the reader takes for its end.
    Where there are `sections`, the marks of raw text, a string outside of them has no `<`, `&` or line break.
    """

    begin: str
    end: str
    ends: tuple[str, ...]
    begin_string: str = ""
    sections: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BraceNotation:
    """`a:1,b:[true]`, up to the brace that closes the call: bare keys, and strings between two of the same
    `mark`.
    """

    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonNotation:
    """Python's keyword arguments, up to the parenthesis that closes the call."""


Notation = JsonNotation | TagNotation | BraceNotation | PythonNotation
