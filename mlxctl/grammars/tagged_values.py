"""Arguments between tags: a string as it is, up to the tag that closes it, anything else as JSON.

Where an argument may be a string or something else, and no tag says which, the reader takes for the other
what looks like it: no string that is written looks so.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from mlxctl.grammars.rule_book import RuleBook
from mlxctl.grammars.schema_branches import (
    KINDS,
    Schema,
    SchemaBranches,
    additional,
    kinds_of,
    limits_of,
    listed_values,
    wants_integers,
)
from mlxctl.grammars.text_patterns import RAW, containing, escaped, literally, regex, string_content
from mlxctl.grammars.value_rules import ValueRules, extra_name, unwritable_name
from mlxctl.ir import TagNotation

_BLANK = r"[\s\x1c-\x1f]*"
_WHOLE = r"-?(0|[1-9][0-9]*)"
_NUMBER = rf"{_WHOLE}(\.[0-9]+)?([eE][+-]?[0-9]+)?"
_BEGINS_AS_NUMBER = rf"{_BLANK}[0-9-][\s\S]*"
_LOOKS = {
    "null": rf"{_BLANK}null{_BLANK}",
    "boolean": rf"{_BLANK}(true|false){_BLANK}",
    "number": rf"{_BLANK}{_NUMBER}{_BLANK}",
    "array": rf"{_BLANK}\[[\s\S]*",
    "object": rf"{_BLANK}\{{[\s\S]*",
    "string": rf"{_BLANK}\x22[\s\S]*",
}
_ANYTHING = frozenset(_LOOKS)
_NAME = re.compile(r"[^\s\"'<>={}\[\](),|]{1,128}")


class TaggedValues:
    """Writes the arguments of one tool.

    `values` writes those that are no strings. Raises Unwritable as it does.
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

    def of(self, branch: Schema) -> str:
        """Return an expression of all arguments that a plain schema allows."""
        self._values.check(branch)
        members = []
        for name, schema, is_required in self._values.members(branch):
            if _NAME.fullmatch(name):
                is_known = name in branch.get("properties", {})
                members.append(
                    (
                        self._member(self._book.spell(name), schema, self._end(name), is_known=is_known),
                        is_required,
                    )
                )
            elif is_required:
                raise unwritable_name(name)
        extra = ""
        # A closing tag with a name needs a name that is known in advance.
        if (rest := additional(branch)) is not None and self._end("") == self._notation.end:
            extra = self._member(
                self._book.terminal(extra_name(branch)), rest, self._notation.end, is_known=False
            )
        return self._values.chain(members, extra, "")

    def _end(self, name: str) -> str:
        return self._notation.end.replace("{name}", name)

    def _member(self, name: str, schema: Any, end: str, *, is_known: bool) -> str:
        branches = self._branches.of(schema)
        kinds = frozenset[str]().union(*map(kinds_of, branches)) if is_known else _ANYTHING
        may_mislead = kinds != {"string"} and not self._notation.begin_string
        strings = [_only(branch, {"string"}) for branch in branches if "string" in kinds_of(branch)]
        others = [
            _only(branch, _ANYTHING - {"string"}) for branch in branches if kinds_of(branch) != {"string"}
        ]
        texts: list[str] = []
        if strings and may_mislead:
            # A terminal matches as long as it can, so alternatives that may end as early as a string have to
            # be part of the same terminal.
            texts = [word for branch in others for word in _words(branch)]
            others = [rest for branch in others for rest in _beside_words(branch)]
        misleading = _misleading(kinds, others) if may_mislead else ()
        contents = [self._content(branch, misleading) for branch in strings]
        written = [
            f"{self._begin(name, is_string=True)} {text}"
            for text in self._closed(filter(None, contents), texts, end)
        ]
        written += [
            f"{self._begin(name, is_string=False)} {value} {self._book.spell(end)}"
            for value in filter(None, map(self._values.branch, others))
        ]
        return self._book.one_of(written)

    def _begin(self, name: str, *, is_string: bool) -> str:
        text = (
            self._notation.begin_string if is_string and self._notation.begin_string else self._notation.begin
        )
        before, _, after = text.partition("{name}")
        return f"{self._book.spell(before)} {name} {self._book.spell(after)}"

    def _content(self, branch: Schema, misleading: Sequence[str]) -> str:
        """The strings that fit, "" where none can be written."""
        raw = replace(RAW, excluded=self._notation.ends)
        if (listed := listed_values(branch)) is not None:
            written = [text for value in listed if (text := escaped(value, raw)) is not None]
            clear = [text for text in written if not any(re.fullmatch(look, text) for look in misleading)]
            return regex("|".join(map(literally, clear))) if clear else ""
        content = string_content(branch, raw, is_strict=self._is_strict)
        return " & ".join([content, *(f"~{regex(look)}" for look in misleading)])

    def _closed(self, contents: Iterable[str], texts: Sequence[str], end: str) -> Iterable[str]:
        """Strings and words with what ends them."""
        choices = [self._book.terminal(content) for content in contents]
        words = self._book.terminal(regex("|".join(texts))) if texts else ""
        if not self._notation.sections:
            return (
                [self._book.closed(" | ".join(filter(None, [*choices, words])), end)]
                if choices or words
                else []
            )
        opener, closer = self._notation.sections
        plain = [f"({content} & /[^<&\\n]*/)" for content in choices]
        inside = [f"({content} & ~{containing((closer,))})" for content in choices]
        closed = [self._book.closed(" | ".join(filter(None, [*plain, words])), end)] if plain or words else []
        section = (
            [f"{self._book.spell(opener)} {self._book.closed(' | '.join(inside), closer + end)}"]
            if inside
            else []
        )
        return [*closed, *section]


def _only(branch: Schema, kinds: Iterable[str]) -> Schema:
    """The part of a plain schema that is about these kinds of values."""
    declared = branch.get("type", KINDS)
    listed = [declared] if isinstance(declared, str) else declared
    return {**branch, "type": [kind for kind in listed if ("number" if kind == "integer" else kind) in kinds]}


def _words(branch: Schema) -> Iterable[str]:
    """The values of a plain schema that regular expressions can write, in JSON."""
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


def _beside_words(branch: Schema) -> Iterable[Schema]:
    """What is left of a plain schema when `_words` are written, if anything is."""
    if (values := listed_values(branch)) is not None:
        if structures := [value for value in values if isinstance(value, list | dict)]:
            yield {"enum": structures}
        return
    rest = kinds_of(branch) - {"null", "boolean"} - (set() if limits_of(branch) else {"number"})
    if rest:
        yield _only(branch, rest)


def _misleading(kinds: frozenset[str], others: Sequence[Schema]) -> Sequence[str]:
    """What a string must not look like, where values of these kinds may be meant, of which rules write the
    `others`.
    """
    looks = [_LOOKS[kind] for kind in sorted(kinds | {"string"})]
    return [*looks, _BEGINS_AS_NUMBER] if any("number" in kinds_of(branch) for branch in others) else looks
