"""Reads `response_template` of tokenizer_config.json: parsers of calls and of thinking. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mlxctl.formats.parsers.declarations import Closing, Opening, ThinkingParser, ToolParser
from mlxctl.formats.parsers.json_calls import JsonCallsBody
from mlxctl.formats.parsers.json_value import quote
from mlxctl.formats.parsers.registry import THINKING_PARSER_IDS, TOOL_PARSER_IDS, thinking_parser, tool_parser
from mlxctl.formats.parsers.response_template.field_content import read_content_parser, read_transform
from mlxctl.formats.parsers.response_template.linear_pattern import LinearPattern
from mlxctl.formats.parsers.response_template.pattern_syntax import literal_core, literal_heads
from mlxctl.formats.parsers.response_template.region_body import CallRegion, RegionBody
from mlxctl.formats.parsers.tool_formats import null

RESPONSE_TEMPLATE_ID = "response_template"
"""The id of both parsers; each model has its own."""

_MAX_FIELDS = 16
_MAX_MARKERS = 32
_MAX_MARKER_CHARS = 128
_THINKING = ("thinking", "reasoning_content", "reasoning")
_PLAIN_CALL = {"type": "function", "function": "{content}"}
_KEYS = frozenset({"version", "defaults", "fields", "start_anchor", "start_anchor_pattern"})
_FIELD_KEYS = frozenset(
    {
        "open", "open_pattern", "close", "close_pattern", "content", "content_args", "repeats", "join",
        "optional", "transform", "transform_each",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateParsers:
    """The parsers that a model's template describes.

    Null parsers for what it does not have. All other formats are known by their ids, too.
    """

    tools: ToolParser = null.TOOLS
    thinking: ThinkingParser = null.THINKING

    @property
    def tool_ids(self) -> tuple[str, ...]:
        """Ids of all formats of calls that can be tried."""
        return (*TOOL_PARSER_IDS, *([RESPONSE_TEMPLATE_ID] if self.tools.opener else []))

    @property
    def thinking_ids(self) -> tuple[str, ...]:
        """Ids of all formats of thinking that can be tried."""
        return (*THINKING_PARSER_IDS, *([RESPONSE_TEMPLATE_ID] if self.thinking.markers else []))

    def tool_parser(self, parser_id: str) -> ToolParser:
        """Return a tool parser; raises KeyError for an unknown id."""
        return self.tools if parser_id == RESPONSE_TEMPLATE_ID else tool_parser(parser_id)

    def thinking_parser(self, parser_id: str) -> ThinkingParser:
        """Return a thinking parser; raises KeyError for an unknown id."""
        return self.thinking if parser_id == RESPONSE_TEMPLATE_ID else thinking_parser(parser_id)


def read_response_template(config: Mapping[str, Any]) -> TemplateParsers:
    """Return the parsers of a tokenizer's configuration.

    Raises ValueError, in one line, for a template that is malformed, too large, or beyond the subset. Regions
    of other fields are text.
    """
    template = config.get("response_template")
    if template is None:
        return TemplateParsers()
    fields = _fields(template)
    calls = fields.get("tool_calls")
    thinking = next((fields[name] for name in _THINKING if name in fields), None)
    try:
        return TemplateParsers(
            tools=null.TOOLS if calls is None else _tool_parser(calls),
            thinking=_thinking_parser(thinking, fields.get("content", {})),
        )
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def _fields(template: Any) -> dict[str, Mapping[str, Any]]:
    if not isinstance(template, Mapping) or template.get("version", 1) != 1:
        raise ValueError("it is no object of version 1")
    fields = template.get("fields")
    if unknown := sorted(set(template) - _KEYS):
        raise ValueError(f"its key {str(unknown[0])[:40]!r} is not known")
    if not isinstance(fields, Mapping) or not 0 < len(fields) <= _MAX_FIELDS:
        raise ValueError(f"it has no fields, or more than {_MAX_FIELDS}")
    for name, field in fields.items():
        if not isinstance(field, Mapping) or set(field) - _FIELD_KEYS:
            raise ValueError(f"its field {name[:40]!r} has unknown keys, or is no object")
    return dict(fields)


def _tool_parser(field: Mapping[str, Any]) -> ToolParser:
    openers, opening = _delimiter(field, "open")
    closers, closing = _delimiter(field, "close")
    if opening is not None:
        heads = literal_heads(opening.node)
        if heads is None or min(map(len, heads)) < 2:
            raise ValueError("a call begins with no fixed text")
        openers = heads
    if not openers:
        raise ValueError("calls have no open or open_pattern")
    content = read_content_parser(field.get("content", "text"), field.get("content_args", {}))
    groups = (opening.groups if opening else frozenset()) | (closing.groups if closing else frozenset())
    transform = read_transform(field.get("transform"), field.get("transform_each"), groups)
    marked = ToolParser(
        id=RESPONSE_TEMPLATE_ID,
        opener=openers[0],
        closer=closers[0] if closers else "",
        other_openers=tuple(openers[1:]),
        other_closers=tuple(closers[1:]),
    )
    if content.is_plain_json and opening is closing is None and transform.shape in (None, _PLAIN_CALL):
        return _with_json_calls(marked)
    region = CallRegion(
        opening=opening, closers=tuple(closers), closing=closing, content=content, transform=transform
    )

    def open_body(opening: Opening) -> RegionBody:
        return RegionBody(region, opening)

    return replace(marked, open_body=open_body)


def _with_json_calls(marked: ToolParser) -> ToolParser:
    """Return the parser of calls that are plain JSON objects.

    They stream, and can be forced.
    """
    opener, closer = marked.opener, marked.closer

    def open_body(opening: Opening) -> JsonCallsBody:
        return JsonCallsBody(opening.tools)

    def force_call(name: str | None) -> str:
        return f"{opener}\n" if name is None else f'{opener}\n{{"name": {quote(name)}, "arguments":'

    return replace(
        marked,
        open_body=open_body,
        forced_prefix=force_call,
        arguments_opening=' {"',
        closings=(Closing(prefix_end='"arguments":', call_end=f"}}\n{closer}"),) if closer else (),
        separator="\n" if closer else None,
    )


def _thinking_parser(field: Mapping[str, Any] | None, answer: Mapping[str, Any]) -> ThinkingParser:
    # Markers around the answer have no content of their own.
    wrappers = tuple(marker for side in ("open", "close") for marker in _markers(answer, side) or ())
    if field is None:
        return ThinkingParser(id=RESPONSE_TEMPLATE_ID, wrappers=wrappers) if wrappers else null.THINKING
    openers, closers = _markers(field, "open"), _markers(field, "close")
    if not openers or not closers:
        raise ValueError("thinking has no fixed text around it")
    opener, closer = openers[0], closers[0]
    return ThinkingParser(
        id=RESPONSE_TEMPLATE_ID,
        opener=opener,
        closer=closer,
        trims="\n ",
        other_openers=tuple(openers[1:]),
        other_closers=tuple(closers[1:]),
        wrappers=wrappers,
        closed_block=f"{opener}\n\n{closer}\n\n",
        closing=f"\n{closer}\n\n",
    )


def _markers(field: Mapping[str, Any], side: str) -> list[str] | None:
    """Return the fixed texts that open or close a field.

    None for a pattern with more.
    """
    markers, pattern = _delimiter(field, side)
    return markers if pattern is None else literal_core(pattern.node)


def _delimiter(field: Mapping[str, Any], side: str) -> tuple[list[str], LinearPattern | None]:
    """Return the texts or the pattern that opens or closes a field."""
    fixed, pattern = field.get(side), field.get(f"{side}_pattern")
    if fixed is not None and pattern is not None:
        raise ValueError(f"a field has both {side} and {side}_pattern")
    if pattern is not None:
        if not isinstance(pattern, str):
            raise ValueError(f"{side}_pattern is no text")
        return [], LinearPattern(pattern)
    markers = [fixed] if isinstance(fixed, str) else fixed if isinstance(fixed, list) else []
    if len(markers) > _MAX_MARKERS or not all(
        isinstance(marker, str) and 0 < len(marker) <= _MAX_MARKER_CHARS for marker in markers
    ):
        raise ValueError(f"{side} is not a short list of short texts")
    return list(dict.fromkeys(markers)), None
