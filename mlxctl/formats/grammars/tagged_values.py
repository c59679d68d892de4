"""Arguments between tags: raw strings, and other values as JSON.

A string ends at the closing tag. Where an argument may be a string or another type, and no tag tells which,
the parser takes text that looks like the other type as such, so the grammar excludes such strings.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from mlxctl.formats.grammars.rule_book import RuleBook
from mlxctl.formats.grammars.schema_branches import (
    KINDS,
    Schema,
    SchemaBranches,
    additional,
    kinds_of,
    limits_of,
    listed_values,
    wants_integers,
)
from mlxctl.formats.grammars.text_patterns import (
    RAW,
    containing,
    escaped,
    literally,
    matching_somewhere,
    regex,
    string_content,
)
from mlxctl.formats.grammars.value_rules import ValueRules, extra_name, unwritable_name
from mlxctl.ir import TagNotation

_BLANK = r"[\s\x1c-\x1f]*"
_WHOLE = r"-?(0|[1-9][0-9]*)"
_NUMBER = rf"{_WHOLE}(\.[0-9]+)?([eE][+-]?[0-9]+)?"
_BEGINS_AS_NUMBER = rf"{_BLANK}[0-9-][\s\S]*"
_TYPE_PATTERNS = {
    "null": rf"{_BLANK}null{_BLANK}",
    "boolean": rf"{_BLANK}(true|false){_BLANK}",
    "number": rf"{_BLANK}{_NUMBER}{_BLANK}",
    "array": rf"{_BLANK}\[[\s\S]*",
    "object": rf"{_BLANK}\{{[\s\S]*",
    "string": rf"{_BLANK}\x22[\s\S]*",
}
_ANYTHING = frozenset(_TYPE_PATTERNS)
_NAME = re.compile(r"[^\s\"'<>={}\[\](),|]{1,128}")


class TaggedValues:
    """Writes the rules of one tool's arguments.

    `values` writes the values that are no strings. Raises UnsupportedSchema.
    """

    def __init__(
        self,
        book: RuleBook,
        branches: SchemaBranches,
        values: ValueRules,
        notation: TagNotation,
        *,
        is_strict: bool,
    ) -> None:
        self._book = book
        self._branches = branches
        self._values = values
        self._notation = notation
        self._is_strict = is_strict
        self._excluded: tuple[str, ...] = ()

    def of(self, branch: Schema) -> str:
        """Return an expression of all arguments that a branch allows."""
        self._values.check(branch)
        rest = additional(branch)
        self._excluded = value_ends(self._notation, branch.get("properties", ()) if rest is None else None)
        members = []
        for name, schema, is_required in self._values.members(branch):
            if _NAME.fullmatch(name):
                is_known = name in branch.get("properties", {})
                members.append(
                    (
                        self._member(self._book.literal(name), schema, self._end(name), is_known=is_known),
                        is_required,
                    )
                )
            elif is_required:
                raise unwritable_name(name)
        extra = ""
        # A closing tag with a name needs a name that is known in advance.
        if rest is not None and self._end("") == self._notation.end:
            extra = self._member(
                self._book.terminal(extra_name(branch)), rest, self._notation.end, is_known=False
            )
        return self._values.chain(members, extra, "")

    def _end(self, name: str) -> str:
        return self._notation.end.replace("{name}", name)

    def _member(self, name: str, schema: Any, end: str, *, is_known: bool) -> str:
        branches = self._branches.of(schema)
        kinds = frozenset[str]().union(*map(kinds_of, branches)) if is_known else _ANYTHING
        is_ambiguous = kinds != {"string"} and not self._notation.begin_string
        strings = [_only(branch, {"string"}) for branch in branches if "string" in kinds_of(branch)]
        others = [
            _only(branch, _ANYTHING - {"string"}) for branch in branches if kinds_of(branch) != {"string"}
        ]
        texts: list[str] = []
        if strings and is_ambiguous:
            # A terminal matches as long as it can, so alternatives that may end as early as a string have to
            # be part of the same terminal.
            texts = [literal for branch in others for literal in _literals(branch)]
            others = [rest for branch in others for rest in _without_literals(branch)]
        ambiguous = _ambiguous(kinds, others) if is_ambiguous else ()
        contents = [self._content(branch, ambiguous) for branch in strings]
        expressions = [
            f"{self._begin(name, 'string')} {text}"
            for text in self._closed(filter(None, contents), texts, end)
        ]
        expressions += [
            f"{self._begin(name, kind)} {value} {self._book.literal(end)}"
            for kind, branch in self._by_tag(others)
            if (value := self._values.branch(branch))
        ]
        return self._book.one_of(expressions)

    def _by_tag(self, branches: Iterable[Schema]) -> Iterable[tuple[str, Schema]]:
        """Yield branches without strings by opening tag, with their type."""
        for branch in branches:
            if "{type}" in self._notation.begin:
                yield from ((kind, _only(branch, {kind})) for kind in sorted(kinds_of(branch)))
            else:
                yield "", branch

    def _begin(self, name: str, kind: str) -> str:
        text = self._notation.begin_string if kind == "string" else ""
        text = (text or self._notation.begin).replace("{type}", kind)
        before, _, after = text.partition("{name}")
        return f"{self._book.literal(before)} {name} {self._book.literal(after)}"

    def _content(self, branch: Schema, ambiguous: Sequence[str]) -> str:
        """Return the strings that match, "" where none can be written."""
        if (listed := listed_values(branch)) is not None:
            raw = replace(RAW, excluded=self._excluded)
            expressions = [text for value in listed if (text := escaped(value, raw)) is not None]
            clear = [
                text for text in expressions if not any(re.fullmatch(pattern, text) for pattern in ambiguous)
            ]
            return regex("|".join(map(literally, clear))) if clear else ""
        marks = (literally(self._notation.mark),) if self._notation.mark else ()
        content = string_content(branch, replace(RAW, excluded=marks), is_strict=self._is_strict)
        return " & ".join([content, *(f"~{regex(pattern)}" for pattern in ambiguous)])

    def _closed(self, contents: Iterable[str], texts: Sequence[str], end: str) -> Iterable[str]:
        """Return strings and literals with their closing tags."""
        choices = [self._book.terminal(content) for content in contents]
        literals = self._book.terminal(regex("|".join(texts))) if texts else ""
        if not self._notation.sections:
            never = matching_somewhere(self._excluded)
            every = " | ".join(filter(None, [*choices, literals]))
            return [self._book.closed(every, end, never=never)] if every else []
        opener, closer = self._notation.sections
        plain = [f"({content} & /[^<&\\n]*/)" for content in choices]
        inside = [f"({content} & ~{containing((closer,))})" for content in choices]
        closed = (
            [self._book.closed(" | ".join(filter(None, [*plain, literals])), end)]
            if plain or literals
            else []
        )
        section = (
            [f"{self._book.literal(opener)} {self._book.closed(' | '.join(inside), closer + end)}"]
            if inside
            else []
        )
        return [*closed, *section]


def value_ends(notation: TagNotation, names: Iterable[str] | None) -> tuple[str, ...]:
    """Return the patterns of what may not be text of a value.

    `names` are those of the arguments, None where others may follow.
    """
    ends = "|".join(map(literally, notation.ends))
    begins = (literally(notation.next_argument), "|".join(map(literally, names or ())) or r"[^\s<>]")
    return (
        *([rf"({ends})\s*<"] if ends else ()),
        *([f"{begins[0]}({begins[1]})"] if notation.next_argument else ()),
        rf"{literally(notation.head)}[^<>\n]+>?\s*<",
    )


def _only(branch: Schema, kinds: Iterable[str]) -> Schema:
    """Return the part of a branch about these types."""
    declared = branch.get("type", KINDS)
    listed = [declared] if isinstance(declared, str) else declared
    return {**branch, "type": [kind for kind in listed if ("number" if kind == "integer" else kind) in kinds]}


def _literals(branch: Schema) -> Iterable[str]:
    """Yield the literals of a branch as regular expressions."""
    if (values := listed_values(branch)) is not None:
        yield from (literally(json.dumps(value)) for value in values if not isinstance(value, list | dict))
        return
    kinds = kinds_of(branch)
    if "null" in kinds:
        yield "null"
    if "boolean" in kinds:
        yield "true|false"
    if "number" in kinds and not limits_of(branch):
        yield _WHOLE if wants_integers(branch) else _NUMBER


def _without_literals(branch: Schema) -> Iterable[Schema]:
    """Yield the rest of a branch without `_words`."""
    if (values := listed_values(branch)) is not None:
        if structures := [value for value in values if isinstance(value, list | dict)]:
            yield {"enum": structures}
        return
    rest = kinds_of(branch) - {"null", "boolean"} - (set() if limits_of(branch) else {"number"})
    if rest:
        yield _only(branch, rest)


def _ambiguous(kinds: frozenset[str], others: Sequence[Schema]) -> Sequence[str]:
    """Return the patterns that a string must not match.

    Strings and values of `kinds` share one argument; rules write the `others`.
    """
    patterns = [_TYPE_PATTERNS[kind] for kind in sorted(kinds | {"string"})]
    return (
        [*patterns, _BEGINS_AS_NUMBER] if any("number" in kinds_of(branch) for branch in others) else patterns
    )
