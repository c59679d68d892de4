"""Values of a field's text, and the calls made of them.

Pure. Content parsers and transforms are those of Transformers; what cannot be read raises ValueError.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mlxctl.formats.parsers.argument_values import value_as_json
from mlxctl.formats.parsers.json_value import json_text, parse_json, quote
from mlxctl.formats.parsers.response_template.linear_pattern import LinearPattern, matches
from mlxctl.formats.parsers.schemas import ToolSchemas

_MAX_ARGUMENTS = 256
_MAX_NESTING = 3
_MAX_DELIMITERS = 8
_MAX_DELIMITER_CHARS = 64
_MAX_TRANSFORM_DEPTH = 8
_PLACEHOLDER = re.compile(r"\{(\w+(?:\.\w+)*)\}", re.ASCII)
_BARE_KEY = re.compile(r"(?<=[{,])(\w+):")
_HELD_STRING = re.compile("\x01(\\d+)\x02")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentParser:
    """How the text of a field becomes a value.

    `kind` is Transformers' name of the parser; the other fields are its `content_args`.
    """

    kind: str = "text"
    strips: bool = True
    has_bare_keys: bool = False
    string_delimiters: tuple[tuple[str, str], ...] = ()
    allows_text: bool = False
    tag: LinearPattern | None = None
    value_parser: "ContentParser | None" = None
    merges: bool = False
    line_separator: str = "\n"
    key_separator: str = ":"

    @property
    def is_plain_json(self) -> bool:
        """Whether it is JSON as JSON is."""
        return self.kind == "json" and not (self.has_bare_keys or self.string_delimiters or self.allows_text)

    def parse(self, text: str) -> Any:
        """Return the value. Raises ValueError."""
        match self.kind:
            case "int":
                return int(text)
            case "float":
                return float(text)
            case "bool":
                return text.strip().lower() in ("true", "1")
            case "json":
                return self._json(text)
            case "xml-inline":
                return self._tagged(text)
            case "kv-lines":
                return self._lines(text)
        return text.strip() if self.strips else text

    def _json(self, text: str) -> Any:
        if self.string_delimiters and ("\x01" in text or "\x02" in text):
            raise ValueError("it has control characters")
        held: list[str] = []
        changed = text
        for opener, closer in self.string_delimiters:
            changed = "".join(_without_strings(changed, opener, closer, held))
        if self.has_bare_keys:
            changed = _BARE_KEY.sub(r'"\1":', changed)
        changed = _HELD_STRING.sub(lambda found: json.dumps(held[int(found[1])]), changed)
        try:
            return parse_json(changed)
        except ValueError:
            if self.allows_text:
                return text.strip() if self.strips else text
            raise

    def _tagged(self, text: str) -> dict[str, Any]:
        assert self.tag is not None
        pairs = (
            (found.groups["key"], found.groups.get("value", ""))
            for found in matches(self.tag, text, most=_MAX_ARGUMENTS)
            if "key" in found.groups
        )
        values: dict[str, Any] = {}
        for key, raw in pairs:
            value = raw if self.value_parser is None else self.value_parser.parse(raw)
            if key not in values or not self.merges:
                values[key] = value
            elif isinstance(values[key], list):
                values[key].append(value)
            else:
                values[key] = [values[key], value]
        return values

    def _lines(self, text: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for line in text.split(self.line_separator)[:_MAX_ARGUMENTS]:
            key, separator, raw = self._trimmed(line).partition(self.key_separator)
            if separator:
                raw = self._trimmed(raw)
                values[self._trimmed(key)] = (
                    raw if self.value_parser is None else self.value_parser.parse(raw)
                )
        return values

    def _trimmed(self, text: str) -> str:
        return text.strip() if self.strips else text


def read_content_parser(kind: Any, arguments: Any, *, nesting: int = 0) -> ContentParser:
    """Return a template's content parser. Raises ValueError."""
    if kind not in ("text", "int", "float", "bool", "json", "xml-inline", "kv-lines"):
        raise ValueError(f"content {kind!r} is not known")
    if not isinstance(arguments, Mapping) or nesting > _MAX_NESTING:
        raise ValueError("content_args is malformed")
    inner = arguments.get("value_parser")
    if inner is not None and not isinstance(inner, Mapping):
        raise ValueError("value_parser is malformed")
    tag = LinearPattern(str(arguments.get("tag_pattern", ""))) if kind == "xml-inline" else None
    if tag is not None and "key" not in tag.groups:
        raise ValueError("tag_pattern has no group named key")
    return ContentParser(
        kind=str(kind),
        strips=arguments.get("strip", True) is not False,
        has_bare_keys=bool(arguments.get("unquoted_keys")),
        string_delimiters=_delimiters(arguments.get("string_delims", [])),
        allows_text=bool(arguments.get("allow_non_json")),
        tag=tag,
        value_parser=None
        if inner is None
        else read_content_parser(inner.get("name", "text"), inner.get("args", {}), nesting=nesting + 1),
        merges=bool(arguments.get("merge_duplicates")),
        line_separator=_separator(arguments, "line_sep", "\n"),
        key_separator=_separator(arguments, "kv_sep", ":"),
    )


def _separator(arguments: Mapping[str, Any], name: str, usual: str) -> str:
    value = arguments.get(name, usual)
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_DELIMITER_CHARS:
        raise ValueError(f"{name} is not a short text")
    return value


def _delimiters(value: Any) -> tuple[tuple[str, str], ...]:
    pairs = value if isinstance(value, list) else []
    if len(pairs) > _MAX_DELIMITERS or not all(
        isinstance(pair, list)
        and len(pair) == 2
        and all(isinstance(text, str) and 0 < len(text) <= _MAX_DELIMITER_CHARS for text in pair)
        for pair in pairs
    ):
        raise ValueError("string_delims is not a short list of pairs")
    return tuple((opener, closer) for opener, closer in pairs)


def _without_strings(text: str, opener: str, closer: str, held: list[str]) -> Iterator[str]:
    """Yield the text with numbers in place of strings.

    The strings are put into `held`.
    """
    at = 0
    while (begin := text.find(opener, at)) >= 0:
        end = text.find(closer, begin + len(opener))
        if end < 0:
            break
        held.append(text[begin + len(opener) : end])
        yield f"{text[at:begin]}\x01{len(held) - 1}\x02"
        at = end + len(closer)
    yield text[at:]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTransform:
    """How the value of a region becomes calls."""

    shape: Any = None
    is_for_each: bool = False

    def calls(self, value: Any, captures: Mapping[str, str], tools: ToolSchemas) -> list[tuple[str, str]]:
        """Return names and JSON arguments. Raises ValueError."""
        if self.shape is None:
            made = value
        elif self.is_for_each:
            if not isinstance(value, list):
                raise ValueError("it is no list of calls")
            made = [self._fill(self.shape, {**captures, **_members(item)}) for item in value]
        else:
            made = self._fill(self.shape, {**captures, "content": value})
        found = [_call(each, tools) for each in (made if isinstance(made, list) else [made])]
        if not found:
            raise ValueError("it has no call")
        return found

    def _fill(self, shape: Any, scope: Mapping[str, Any]) -> Any:
        if isinstance(shape, Mapping):
            return {key: self._fill(value, scope) for key, value in shape.items()}
        if isinstance(shape, list):
            return [self._fill(value, scope) for value in shape]
        found = _PLACEHOLDER.fullmatch(shape) if isinstance(shape, str) else None
        if found is None:
            return shape
        value: Any = scope
        for key in found[1].split("."):
            members = _members(value)
            if key not in members:
                raise ValueError(f"it has no {key}")
            value = members[key]
        return value


def read_transform(value: Any, is_for_each: Any, groups: frozenset[str]) -> CallTransform:
    """Return a template's transform; `groups` are those of its patterns. Raises ValueError."""
    names = {name.partition(".")[0] for name in _placeholders(value, 0)}
    unknown = sorted(names - groups - {"content"})
    if unknown and not is_for_each:
        raise ValueError(f"transform names {unknown[0]!r}, which no pattern captures")
    return CallTransform(shape=value, is_for_each=bool(is_for_each))


def _placeholders(value: Any, depth: int) -> Iterator[str]:
    if depth > _MAX_TRANSFORM_DEPTH:
        raise ValueError("transform is nested too deep")
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for each in inner:
        yield from _placeholders(each, depth + 1)
    if isinstance(value, str) and _PLACEHOLDER.search(value):
        found = _PLACEHOLDER.fullmatch(value)
        if found is None:
            raise ValueError(f"transform mixes a placeholder with text: {value[:80]!r}")
        yield found[1]


def _members(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    raise ValueError("it is no object")


def _call(value: Any, tools: ToolSchemas) -> tuple[str, str]:
    function = _members(value)
    function = _members(function["function"]) if "function" in function else function
    name, arguments = function.get("name"), function.get("arguments", {})
    if isinstance(arguments, str):
        arguments = parse_json(arguments)
    if not isinstance(name, str) or not name or not isinstance(arguments, Mapping):
        raise ValueError("it has no name with arguments")
    name = tools.resolve(name)
    typed = ", ".join(f"{quote(key)}: {_typed(value, tools, name, key)}" for key, value in arguments.items())
    return name, f"{{{typed}}}"


def _typed(value: Any, tools: ToolSchemas, name: str, key: str) -> str:
    """Return an argument as JSON, a text by the tool's schema."""
    kinds = tools.kinds(name, key)
    return value_as_json(value, kinds) if isinstance(value, str) and kinds is not None else json_text(value)
