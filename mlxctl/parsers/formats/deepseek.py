"""Tool calls of DeepSeek in three formats.

All use special tokens with a wide bar. V3 and R1 write a type before the name and a JSON code block after it;
V3.1 writes only name and arguments; V3.2 and later write DSML: a tag for each argument, with a flag for
string values.
"""

import re

from mlxctl.ir import TagNotation
from mlxctl.parsers.call_tags import CallTags
from mlxctl.parsers.declarations import BodyReader, Closing, Opening, ToolParser
from mlxctl.parsers.headed_json import CallHead, HeadedJsonBody
from mlxctl.parsers.tagged_calls import TaggedCallsBody

_CALLS, _CALL, _SEPARATOR, _CALL_END = (
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
)
_CALLS_END = "<｜tool▁calls▁end｜>"
_DSML = "｜DSML｜"
_BLOCKS = ("function_calls", "tool_calls")
# How models misspell the beginning of a block.
_MISSPELLED = ("toolcalls", "tool")

_HEAD = CallHead(
    pattern=re.compile(
        rf"\s*(?:{_CALL})?\s*(?:function{_SEPARATOR})?(?P<name>[^\s<{{}}]+)(?:{_SEPARATOR}\s*|\s*```(?:json)?\s*)"
    ),
    may_begin=re.compile(r"[^{}]*"),
    tails=("```", _CALL_END),
    opener=_CALL,
)
_PARAMETER = re.compile(
    r"""\s*["'](?P<name>[^"'\n]+)["'](?:\s+string=["']?(?P<string>true|false)["']?)?\s*"""
)


def _read_parameter(tag: str) -> tuple[str, bool | None] | None:
    found = _PARAMETER.fullmatch(tag)
    if found is None:
        return None
    return found["name"], None if found["string"] is None else found["string"] == "true"


_TAGS = CallTags(
    call_opener=f"<{_DSML}invoke name=",
    name_ends=">",
    call_closer=f"</{_DSML}invoke>",
    key_opener=f"<{_DSML}parameter name=",
    key_end=">",
    value_closer=f"</{_DSML}parameter>",
    value_ends=(f"<{_DSML}parameter name=", f"</{_DSML}invoke>"),
    block_closers=tuple(f"</{_DSML}{block}>" for block in _BLOCKS),
    read_key=_read_parameter,
)


def _open_body(opening: Opening) -> BodyReader:
    if _DSML not in opening.marker:
        return HeadedJsonBody(_HEAD, opening.tools)
    return TaggedCallsBody(_TAGS, opening.tools, is_named=opening.marker == _TAGS.call_opener)


def _force_plain(name: str | None) -> str:
    return f"{_CALLS}{_CALL}" if name is None else f"{_CALLS}{_CALL}{name}{_SEPARATOR}"


def _force_typed(name: str | None) -> str:
    begin = f"{_CALLS}{_CALL}function{_SEPARATOR}"
    return begin if name is None else f"{begin}{name}\n```json\n"


def _force_dsml(block: str, name: str | None) -> str:
    begin = f'<{_DSML}{block}>\n<{_DSML}invoke name="'
    return begin if name is None else f'{begin}{name}">\n'


def _close_dsml(block: str) -> Closing:
    return Closing(
        prefix_start=f"<{_DSML}{block}>",
        prefix_end='">\n',
        call_end=f"</{_DSML}invoke>\n</{_DSML}{block}>",
        call_separator="",
        block=(f"<{_DSML}{block}>\n", f"</{_DSML}{block}>"),
        notation=TagNotation(
            begin=f'<{_DSML}parameter name="{{name}}" string="false">',
            begin_string=f'<{_DSML}parameter name="{{name}}" string="true">',
            end=f"{_TAGS.value_closer}\n",
            ends=(_TAGS.value_closer,),
        ),
    )


TOOLS = ToolParser(
    id="deepseek",
    opener=_CALLS,
    other_openers=(_CALL, _TAGS.call_opener, *(f"<{_DSML}{block}>" for block in (*_BLOCKS, *_MISSPELLED))),
    closer=_CALLS_END,
    other_closers=tuple(f"</{_DSML}{block}>" for block in _BLOCKS),
    open_body=_open_body,
    inner_markers=(_SEPARATOR, _CALL_END, _DSML),
    forced_prefix=_force_plain,
    closings=(
        Closing(
            prefix_end=_SEPARATOR,
            call_end=f"{_CALL_END}{_CALLS_END}",
            call_separator="",
            block=(_CALLS, _CALLS_END),
        ),
        Closing(
            prefix_end="```json\n",
            call_end=f"\n```{_CALL_END}{_CALLS_END}",
            call_separator="\n",
            block=(_CALLS, _CALLS_END),
        ),
        *(_close_dsml(block) for block in _BLOCKS),
    ),
    dialects=(_force_typed, *(lambda name, block=block: _force_dsml(block, name) for block in _BLOCKS)),
)
