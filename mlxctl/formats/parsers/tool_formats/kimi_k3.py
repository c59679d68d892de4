"""Tool calls of Kimi K3: a `tools` section of XTML tags.

`<|open|>call tool="f" index="1"<|sep|><|open|>argument key="a"
type="number"<|sep|>1<|close|>argument<|sep|><|close|>call<|sep|>`. Arguments may be
one object in a `json` tag.
"""

import re
from html import unescape

from mlxctl.formats.parsers.call_tags import CallTags
from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.tagged_calls import TaggedCallsBody
from mlxctl.ir import TagNotation

_OPEN, _CLOSE, _SEP = "<|open|>", "<|close|>", "<|sep|>"
_TOOLS, _TOOLS_END = f"{_OPEN}tools{_SEP}", f"{_CLOSE}tools{_SEP}"
_CALL, _ARGUMENT, _ARGUMENT_END = f"{_OPEN}call tool=", f"{_OPEN}argument key=", f"{_CLOSE}argument{_SEP}"
_CALL_END = f"{_CLOSE}call{_SEP}"
_KEY = re.compile(r"""\s*["'](?P<name>[^"'\n]+)["'](?:\s+type=["']?(?P<type>\w+)["']?)?[^\n]*""")


def _read_key(tag: str) -> tuple[str, bool | None] | None:
    found = _KEY.fullmatch(tag)
    if found is None:
        return None
    return unescape(found["name"]), None if found["type"] is None else found["type"] == "string"


_TAGS = CallTags(
    call_opener=_CALL,
    name_end=_SEP,
    call_closer=_CALL_END,
    key_opener=_ARGUMENT,
    key_end=_SEP,
    value_closer=_ARGUMENT_END,
    json_opener=f"{_OPEN}json",
    json_closer=f"{_CLOSE}json{_SEP}",
    read_key=_read_key,
)


def _open_body(opening: Opening) -> TaggedCallsBody:
    return TaggedCallsBody(_TAGS, opening.tools, is_named=opening.marker == _CALL)


def _force_call(name: str | None) -> str:
    return f'{_TOOLS}{_CALL}"' if name is None else f'{_TOOLS}{_CALL}"{name}" index="1"{_SEP}'


TOOLS = ToolParser(
    id="kimi_k3",
    opener=_TOOLS,
    other_openers=(_CALL,),
    closer=_TOOLS_END,
    open_body=_open_body,
    inner_markers=(_OPEN, _CLOSE, _SEP),
    forced_prefix=_force_call,
    closings=(
        Closing(
            prefix_end=_SEP,
            call_end=f"{_CALL_END}{_TOOLS_END}",
            notation=TagNotation(
                begin=f'{_ARGUMENT}"{{name}}" type="{{type}}"{_SEP}',
                begin_string=f'{_ARGUMENT}"{{name}}" type="string"{_SEP}',
                end=_ARGUMENT_END,
                ends=(),
                head=_CALL,
                mark=_ARGUMENT_END,
            ),
        ),
    ),
)
