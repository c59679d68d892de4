"""Tool calls of Mistral: `[TOOL_CALLS]` and JSON.

A list of JSON objects or, since 2025, `f[ARGS]{"a": 1}` for each. There is no closing marker. Some templates
write an id between name and arguments, as `[CALL_ID]…`. The models sometimes write an available tool's name
before the marker, `f[TOOL_CALLS]{"a": 1}`, or forget the marker: `f[ARGS]{"a": 1}`.
"""

import re

from mlxctl.formats.parsers.declarations import BodyReader, Closing, Opening, ToolParser
from mlxctl.formats.parsers.first_character import FirstCharacterBody
from mlxctl.formats.parsers.headed_json import CallHead, HeadedJsonBody
from mlxctl.formats.parsers.json_calls import JsonCallsBody
from mlxctl.formats.parsers.json_value import quote

_OPENER, _ID, _ARGUMENTS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"

_HEAD = CallHead(
    pattern=re.compile(r"\s*(?P<name>[\w.:/-]+)\s*(?:\[CALL_ID\]\s*[\w-]*\s*)?(?:\[ARGS\]\s*)?"),
    may_begin=re.compile(r"\s*[\w.:/-]*\s*(?:\[[A-Z_]*\]?[\s\w-]*)*"),
    whole_name=re.compile(r"\s*(?P<name>[\w.:/-]+)\s*(?:\[|\Z)"),
)

_SWAPPED_HEAD = CallHead(
    pattern=re.compile(r"(?P<name>.+?)(?:\[TOOL_CALLS\])?(?:\[ARGS\])?\s*"),
    may_begin=re.compile(r".*"),
    is_bare=True,
)


def _open_body(opening: Opening) -> BodyReader:
    if not opening.marker:
        return HeadedJsonBody(_SWAPPED_HEAD, opening.tools)

    def choose(first: str) -> BodyReader:
        return JsonCallsBody(opening.tools) if first in "[{" else HeadedJsonBody(_HEAD, opening.tools)

    return FirstCharacterBody(choose)


def _swapped_calls(name: str) -> tuple[str, ...]:
    return tuple(f"{name}{mark}{{" for mark in (_OPENER, f"{_OPENER}{_ARGUMENTS}", _ARGUMENTS))


def _force_head(name: str | None) -> str:
    return _OPENER if name is None else f"{_OPENER}{name}{_ARGUMENTS}"


def _force_list(name: str | None) -> str:
    return _OPENER if name is None else f'{_OPENER}[{{"name": {quote(name)}, "arguments":'


def _force_spaced_list(name: str | None) -> str:
    return _OPENER if name is None else f'{_OPENER} [{{"name": {quote(name)}, "arguments":'


TOOLS = ToolParser(
    id="mistral",
    opener=_OPENER,
    open_body=_open_body,
    bare_calls=_swapped_calls,
    inner_markers=(_ID, _ARGUMENTS),
    forced_prefix=_force_head,
    dialects=(_force_list, _force_spaced_list),
    closings=(
        Closing(prefix_end=_ARGUMENTS, call_end="", call_separator=_OPENER, block=(_OPENER, "")),
        *(
            Closing(
                prefix_start=begin,
                prefix_end='"arguments":',
                call_end="}]",
                call_separator=", ",
                block=(begin, "]"),
            )
            for begin in (f"{_OPENER}[", f"{_OPENER} [")
        ),
    ),
)
