"""Lark rules of the values that match a schema.

llguidance's own JSON is not used: its strings may contain the text that ends the call for the parser, and it
supports no other notation. Only the keywords named here are enforced; others are left to the model, or raise
an error in a strict schema.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlxctl.formats.grammars.errors import UnsupportedSchema
from mlxctl.formats.grammars.number_ranges import needs_pattern, number_pattern, number_schema, within_floats
from mlxctl.formats.grammars.rule_book import RuleBook
from mlxctl.formats.grammars.schema_branches import (
    Schema,
    SchemaBranches,
    additional,
    kind_of,
    kinds_of,
    limits_of,
    listed_values,
    wants_integers,
)
from mlxctl.formats.grammars.text_patterns import (
    JSON_STRING,
    Quoting,
    escaped,
    literally,
    regex,
    string_content,
)

_NOT_ENFORCED = (
    "not", "if", "then", "else", "patternProperties", "propertyNames", "minProperties", "maxProperties",
    "dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties", "unevaluatedItems",
    "contains", "uniqueItems", "contentEncoding",
)  # fmt: skip
_EXTRA_NAME = "/[A-Za-z_][A-Za-z0-9_]{0,63}/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """How the keys of an object are written.

    A key that matches the regular expression `bare` is unquoted, others are quoted, if `quoting` is set.
    `colon` is the regular expression after a key.
    """

    bare: str
    quoting: Quoting | None
    colon: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueNotation:
    """How values are written.

    `words` are the spellings of true, false and null. `separator` stands between members; it, `braces` and
    `brackets` are regular expressions.
    """

    quotings: tuple[Quoting, ...]
    words: Mapping[str, tuple[str, ...]]
    keys: Keys
    separator: str
    braces: tuple[str, str]
    brackets: tuple[str, str]


BLANK = r"( |\n( {0,32}|\t{0,16}))?"
JSON = ValueNotation(
    quotings=(JSON_STRING,),
    words={word: (word,) for word in ("true", "false", "null")},
    keys=Keys(bare="", quoting=JSON_STRING, colon=": ?"),
    separator=f",{BLANK}",
    braces=(rf"\{{{BLANK}", rf"{BLANK}\}}"),
    brackets=(rf"\[{BLANK}", rf"{BLANK}\]"),
)


class ValueRules:
    """Writes rules for parts of one schema.

    Raises UnsupportedSchema for a part without a rule.
    """

    def __init__(
        self, book: RuleBook, branches: SchemaBranches, notation: ValueNotation, *, is_strict: bool
    ) -> None:
        self._book = book
        self._branches = branches
        self._notation = notation
        self._is_strict = is_strict

    def value(self, schema: Any) -> str:
        """Return the name of the rule for values that match a schema."""
        key = json.dumps(schema, sort_keys=True)
        return self._book.rule(
            key, lambda: self._book.one_of(filter(None, map(self.branch, self._branches.of(schema))))
        )

    def branch(self, branch: Schema) -> str:
        """Return an expression of a branch's values, "" without any."""
        self.check(branch)
        kinds = kinds_of(branch)
        if (values := listed_values(branch)) is not None:
            return self._listed(values) if values else ""
        writers: Mapping[str, Callable[[Schema], str]] = {
            "string": self._string, "number": self._number, "array": self._array, "object": self._object
        }  # fmt: skip
        choices = [writers[kind](branch) for kind in writers if kind in kinds]
        words = [*(("true", "false") if "boolean" in kinds else ()), *(("null",) if "null" in kinds else ())]
        return self._book.one_of(
            [*choices, *(json.dumps(text) for word in words for text in self._notation.words[word])]
        )

    def check(self, branch: Schema) -> None:
        """Raise UnsupportedSchema for keywords that a strict schema cannot have."""
        for key in _NOT_ENFORCED:
            if self._is_strict and key in branch:
                raise UnsupportedSchema(f"{key!r} cannot be enforced in this model's calls")

    def _string(self, branch: Schema) -> str:
        return self._book.one_of(
            f"{self._book.literal(quoting.left)} "
            + self._book.closed(string_content(branch, quoting, is_strict=self._is_strict), quoting.right)
            for quoting in self._notation.quotings
        )

    def _number(self, branch: Schema) -> str:
        limits, is_integer = limits_of(branch), wants_integers(branch)
        if needs_pattern(limits, is_integer=is_integer):
            pattern = number_pattern(limits, is_integer=is_integer)
            if pattern is not None:
                return self._regex(pattern) if pattern else self._book.one_of(())
            # Multiples among the numbers that llguidance does not round are a part of those allowed.
            limits = within_floats(limits)
            if needs_pattern(limits, is_integer=is_integer):
                if self._is_strict:
                    raise UnsupportedSchema(f"multiples of {limits['multipleOf']} cannot be enforced")
                limits = {}
        schema = json.dumps(number_schema(limits, is_integer=is_integer))
        return self._book.rule(f"%json {schema}", lambda: f"%json {schema}")

    def _array(self, branch: Schema) -> str:
        opener, closer = map(self._regex, self._notation.brackets)
        first, rest = branch.get("prefixItems", ()), branch.get("items", True)
        least, most = branch.get("minItems", 0), branch.get("maxItems")
        if rest is False:
            most = len(first) if most is None else min(most, len(first))
        comma = self._regex(self._notation.separator)
        items = [self.value(schema) for schema in (first if most is None else first[:most])]
        inside = self._items(items, "" if rest is False else self.value(rest), comma, least, most)
        return f"{opener} {inside} {closer}"

    def _items(self, items: Sequence[str], rest: str, comma: str, least: int, most: int | None) -> str:
        """Return the members of an array.

        `items` at their positions, then any number of `rest`, `least` to `most` in all.
        """
        before = len(items)
        num_before = max(before, 1)
        most_more = "" if most is None else max(most - num_before, 0)
        more = f"({comma} {rest}){{{max(least - num_before, 0)},{most_more}}}"
        if not before:
            if most == 0 or not rest:
                return ""
            whole = f"{rest} {more}"
            return whole if least else f"({whole})?"
        inside = more if rest and (most is None or most > before) else ""
        for index in reversed(range(before)):
            inside = f"{comma if index else ''} {items[index]} {inside}"
            inside = inside if index < least else f"({inside})?"
        return inside

    def _object(self, branch: Schema) -> str:
        opener, closer = map(self._regex, self._notation.braces)
        return f"{opener} {self.inside(branch, self._notation.keys)} {closer}"

    def inside(self, branch: Schema, keys: Keys) -> str:
        """Return an expression of an object's members without its braces."""
        colon, separator = self._regex(keys.colon), self._regex(self._notation.separator)
        members = [
            (f"{key} {colon} {self.value(schema)}", is_required)
            for name, schema, is_required in self.members(branch)
            if (key := self._key(name, keys, is_required=is_required))
        ]
        extra = ""
        if (schema := additional(branch)) is not None:
            extra = f"{self._extra_key(branch, keys)} {colon} {self.value(schema)}"
        return self.chain(members, extra, separator)

    def members(self, branch: Schema) -> list[tuple[str, Any, bool]]:
        """Return name, schema and whether required of an object's named members."""
        properties, required = branch.get("properties", {}), branch.get("required", ())
        rest = branch.get("additionalProperties", True)
        known = {**properties, **{name: rest for name in required if name not in properties}}
        fitting = {name: schema for name, schema in known.items() if self._can_fit(schema)}
        if missing := next((name for name in required if name not in fitting), None):
            raise UnsupportedSchema(f"no value matches its required property {missing!r}")
        return [(name, schema, name in required) for name, schema in fitting.items()]

    def chain(self, members: Sequence[tuple[str, bool]], extra: str, comma: str) -> str:
        """Return an expression of members in order.

        Optional ones may be left out; any number of extra ones may follow.
        """
        more = f"({comma} {extra})*" if extra else ""
        whole = f"({extra} {more})?" if extra else ""
        for member, is_required in reversed(members):
            follows = more
            begins = f"{member} {follows}"
            if is_required:
                whole, more = begins, f"{comma} {member} {follows}"
            else:
                whole = self._book.one_of([begins, whole]) if whole else f"({begins})?"
                more = f"({comma} {member})? {follows}"
            whole, more = self._shared(whole), self._shared(more)
        return whole

    def _shared(self, expression: str) -> str:
        return self._book.rule(f"={expression}", lambda: expression) if expression.strip() else ""

    def _can_fit(self, schema: Any) -> bool:
        return bool(self._branches.of(schema))

    def _listed(self, values: Sequence[Any]) -> str:
        """Return an expression of these values.

        Strings and numbers are one terminal each, since a rule has a limited number of alternatives.
        """
        strings = [value for value in values if kind_of(value) == "string"]
        numbers = [value for value in values if kind_of(value) == "number"]
        expressions = [
            self._literals(value) for value in values if kind_of(value) not in ("string", "number")
        ]
        if numbers:
            expressions.append(self._regex("|".join(literally(json.dumps(value)) for value in numbers)))
        for quoting in self._notation.quotings if strings else ():
            texts = [text for value in strings if (text := escaped(value, quoting)) is not None]
            if texts:
                content = self._book.closed(regex("|".join(map(literally, texts))), quoting.right)
                expressions.append(f"{self._book.literal(quoting.left)} {content}")
        return self._book.one_of(expressions)

    def _literals(self, value: Any) -> str:
        """Return the spellings of a value other than strings and numbers."""
        if value is None or isinstance(value, bool):
            return self._book.one_of(map(json.dumps, self._notation.words[json.dumps(value)]))
        if isinstance(value, list):
            members = [{"const": item} for item in value]
            return self._array({"prefixItems": members, "items": False, "minItems": len(value)})
        properties = {name: {"const": item} for name, item in value.items()}
        return self._object({"properties": properties, "required": [*value], "additionalProperties": False})

    def _key(self, name: str, keys: Keys, *, is_required: bool) -> str:
        """Return a member's key, "" for an unwritable optional one."""
        if re.fullmatch(keys.bare, name):
            return json.dumps(name)
        if keys.quoting is not None and (text := escaped(name, keys.quoting)) is not None:
            return f"{self._book.literal(keys.quoting.left)} {self._book.quoted(text, keys.quoting.right)}"
        if is_required:
            raise unwritable_name(name)
        return ""

    def _extra_key(self, branch: Schema, keys: Keys) -> str:
        if keys.bare or keys.quoting is None:
            return self._book.terminal(extra_name(branch))
        closed = self._book.closed(extra_name(branch), keys.quoting.right)
        return f"{self._book.literal(keys.quoting.left)} {closed}"

    def _regex(self, pattern: str) -> str:
        return self._book.terminal(regex(pattern))


def extra_name(branch: Schema) -> str:
    """Return an expression of names that a branch does not have."""
    known = [*branch.get("properties", {}), *branch.get("required", ())]
    return _EXTRA_NAME + (f" & ~/{'|'.join(map(literally, known))}/" if known else "")


def unwritable_name(name: str) -> UnsupportedSchema:
    """Return the error for a required property whose name cannot be written."""
    return UnsupportedSchema(f"its property {name!r} cannot be written in this model's calls")
