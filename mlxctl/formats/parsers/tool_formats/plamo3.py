"""Tool calls of PLaMo 3: requests with a name and JSON arguments.

`<|plamo:begin_tool_requests:plamo|>`, then for each call a request with a `tool_name` and `tool_arguments`
after `<|plamo:constrain|>json<|plamo:msg|>`. The tokenizer writes a marker as several tokens.
"""

import re

from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.headed_json import CallHead, HeadedJsonBody


def _begin(part: str) -> str:
    return f"<|plamo:begin_{part}:plamo|>"


def _end(part: str) -> str:
    return f"<|plamo:end_{part}:plamo|>"


_CALLS, _CALL, _NAME = _begin("tool_requests"), _begin("tool_request"), _begin("tool_name")
_NAME_END = _end("tool_name")
_JSON = ("<|plamo:constrain|>", "<|plamo:msg|>")
_ARGUMENTS = f"{_begin('tool_arguments')}{_JSON[0]}json{_JSON[1]}"
_ARGUMENTS_END, _CALL_END, _CALLS_END = _end("tool_arguments"), _end("tool_request"), _end("tool_requests")

_HEAD = CallHead(
    pattern=re.compile(
        rf"\s*(?:{re.escape(_CALL)})?\s*(?:{re.escape(_NAME)})?\s*(?P<name>[^\s<|{{}}]+)\s*{re.escape(_NAME_END)}\s*"
        rf"{re.escape(_begin('tool_arguments'))}(?:{re.escape(_JSON[0])}json)?(?:{re.escape(_JSON[1])})?\s*"
    ),
    may_begin=re.compile(
        r"\s*(?:<\|plamo:[a-z_:|>]*)?\s*(?:<\|plamo:[a-z_:|>]*)?\s*[^\s<|{}]*\s*(?:<[^{}]*)?"
    ),
    whole_name=re.compile(
        rf"\s*(?:{re.escape(_CALL)})?\s*(?:{re.escape(_NAME)})?\s*(?P<name>[^\s<|{{}}]+)\s*<"
    ),
    begun_name=re.compile(
        rf"\s*(?:{re.escape(_CALL)})?\s*{re.escape(_NAME)}\s*(?P<name>[^\s<|{{}}]+)\s*(?:<[|\w:>\s]*)*"
    ),
    tails=(_ARGUMENTS_END, _CALL_END),
    opener=_CALL,
)


def _open_body(opening: Opening) -> HeadedJsonBody:
    return HeadedJsonBody(_HEAD, opening.tools)


def _force_call(name: str | None) -> str:
    begin = f"{_CALLS}{_CALL}{_NAME}"
    return begin if name is None else f"{begin}{name}{_NAME_END}{_ARGUMENTS}"


TOOLS = ToolParser(
    id="plamo3",
    opener=_CALLS,
    other_openers=(_CALL, _NAME),
    closer=_CALLS_END,
    other_closers=("<|plamo:tag|>",),
    open_body=_open_body,
    inner_markers=(
        _NAME_END,
        _begin("tool_arguments"),
        _ARGUMENTS_END,
        _CALL_END,
        *_JSON,
        "<|plamo:begin_",
        "<|plamo:end_",
        ":plamo|>",
    ),
    forced_prefix=_force_call,
    closings=(
        Closing(
            prefix_end=_ARGUMENTS,
            call_end=f"{_ARGUMENTS_END}{_CALL_END}{_CALLS_END}",
            call_separator="",
            block=(_CALLS, _CALLS_END),
        ),
    ),
)
