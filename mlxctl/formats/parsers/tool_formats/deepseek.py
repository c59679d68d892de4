"""Tool calls of DeepSeek in four formats, and of GigaChat 3.5.

All use special tokens with a wide bar. V3 and R1 write a type before the name and a JSON code block after it;
V3.1 writes only name and arguments; V3.2 and V4 write DSML: a tag for each argument, with a flag for string
values; V4.1 writes a space after the bar of each of these tags. GigaChat's tags are those of V4, named GCML.
"""

import re

from mlxctl.formats.parsers.call_tags import CallTags
from mlxctl.formats.parsers.declarations import BodyReader, Closing, Opening, ToolParser
from mlxctl.formats.parsers.headed_json import CallHead, HeadedJsonBody
from mlxctl.formats.parsers.tagged_calls import TaggedCallsBody
from mlxctl.ir import TagNotation

_CALLS, _CALL, _SEPARATOR, _CALL_END = (
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
)
_CALLS_END = "<｜tool▁calls▁end｜>"
_DSML, _SPACED_DSML, _GCML = "｜DSML｜", "｜DSML｜ ", "｜GCML｜"
# The beginning of its tags, and each block's name: V3.2, V4, V4.1, GigaChat 3.5.
_BLOCKS = (
    (_DSML, "function_calls"),
    (_DSML, "tool_calls"),
    (_SPACED_DSML, "calls"),
    (_GCML, "tool_calls"),
)
# How models misspell the beginning and the end of a block.
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


def _tags(dsml: str) -> CallTags:
    return CallTags(
        call_opener=f"<{dsml}invoke name=",
        name_ends=">",
        call_closer=f"</{dsml}invoke>",
        key_opener=f"<{dsml}parameter name=",
        key_end=">",
        value_closer=f"</{dsml}parameter>",
        value_ends=(f"<{dsml}parameter name=", f"</{dsml}invoke>"),
        block_closers=tuple(f"</{dsml}{block}>" for begin, block in _BLOCKS if begin == dsml),
        read_key=_read_parameter,
    )


# The longest beginning first.
_TAGS = {dsml: _tags(dsml) for dsml in (_SPACED_DSML, _DSML, _GCML)}


def _open_body(opening: Opening) -> BodyReader:
    tags = next((tags for dsml, tags in _TAGS.items() if dsml in opening.marker), None)
    if tags is None:
        return HeadedJsonBody(_HEAD, opening.tools)
    return TaggedCallsBody(tags, opening.tools, is_named=opening.marker == tags.call_opener)


def _force_plain(name: str | None) -> str:
    return f"{_CALLS}{_CALL}" if name is None else f"{_CALLS}{_CALL}{name}{_SEPARATOR}"


def _force_typed(name: str | None) -> str:
    begin = f"{_CALLS}{_CALL}function{_SEPARATOR}"
    return begin if name is None else f"{begin}{name}\n```json\n"


def _force_dsml(dsml: str, block: str, name: str | None) -> str:
    begin = f'<{dsml}{block}>\n<{dsml}invoke name="'
    return begin if name is None else f'{begin}{name}">\n'


def _close_dsml(dsml: str, block: str) -> Closing:
    tags = _TAGS[dsml]
    return Closing(
        prefix_start=f"<{dsml}{block}>",
        prefix_end='">\n',
        call_end=f"{tags.call_closer}\n</{dsml}{block}>",
        call_separator="",
        block=(f"<{dsml}{block}>\n", f"</{dsml}{block}>"),
        notation=TagNotation(
            begin=f'<{dsml}parameter name="{{name}}" string="false">',
            begin_string=f'<{dsml}parameter name="{{name}}" string="true">',
            end=f"{tags.value_closer}\n",
            ends=(tags.value_closer, tags.call_closer),
            head=tags.call_opener,
            mark=tags.value_closer,
            next_argument=f'{tags.key_opener}"',
        ),
    )


TOOLS = ToolParser(
    id="deepseek",
    opener=_CALLS,
    other_openers=(
        _CALL,
        *(tags.call_opener for tags in _TAGS.values()),
        *(f"<{dsml}{block}>" for dsml, block in _BLOCKS),
        *(f"<{_DSML}{block}>" for block in _MISSPELLED),
    ),
    closer=_CALLS_END,
    space_before="\n\n",
    other_closers=(
        *(f"</{dsml}{block}>" for dsml, block in _BLOCKS),
        *(f"</{_DSML}{block}>" for block in _MISSPELLED),
    ),
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
        *(_close_dsml(dsml, block) for dsml, block in _BLOCKS),
    ),
    dialects=(
        _force_typed,
        *(lambda name, dsml=dsml, block=block: _force_dsml(dsml, block, name) for dsml, block in _BLOCKS),
    ),
)
