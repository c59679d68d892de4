"""Tool calls of Beam: messages with a tag for each argument.

`<|start|>assistant to=f<|channel|>analysis <|constrain|>xml<|message|>` begins a call. Each argument is in
`<rfl:parameter name="a">`, on lines of its own. `<|call|>` ends the last call, `<|end|>` the others. All
other messages are gpt-oss's.
"""

from mlxctl.formats.parsers.call_tags import CallTags
from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.tagged_calls import TaggedCallsBody
from mlxctl.ir import TagNotation

_OPENER, _CALL, _END = "<|start|>assistant to=", "<|call|>", "<|end|>"
_HEADER_END = "<|channel|>analysis <|constrain|>xml<|message|>"
_KEY, _VALUE_CLOSER = '<rfl:parameter name="', "</rfl:parameter>"

_TAGS = CallTags(
    call_opener=_OPENER,
    name_end=_HEADER_END,
    call_closer=_CALL,
    block_closers=(_END,),
    key_opener=_KEY,
    key_end='">',
    value_closer=_VALUE_CLOSER,
    value_ends=tuple(f"\n{mark}" for mark in (_KEY, _CALL, _END)),
    trims="\n",
)


def _open_body(opening: Opening) -> TaggedCallsBody:
    return TaggedCallsBody(_TAGS, opening.tools, is_named=True)


def _force_call(name: str | None) -> str:
    return _OPENER if name is None else f"{_OPENER}{name}{_HEADER_END}"


TOOLS = ToolParser(
    id="beam",
    opener=_OPENER,
    closer=_CALL,
    other_closers=(_END,),
    open_body=_open_body,
    inner_markers=("<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", _KEY, _VALUE_CLOSER),
    forced_prefix=_force_call,
    closings=(
        Closing(
            prefix_end=_HEADER_END,
            call_end=_CALL,
            notation=TagNotation(
                begin=f'{_KEY}{{name}}">\n',
                end=f"\n{_VALUE_CLOSER}",
                ends=(_TAGS.value_closer, f"\n{_CALL}", f"\n{_END}"),
                head=_OPENER,
                next_argument=f"\n{_KEY}",
            ),
        ),
    ),
)
