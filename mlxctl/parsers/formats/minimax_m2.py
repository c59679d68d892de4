"""Tool calls of MiniMax M2: a `<parameter>` tag for each argument.

`<minimax:tool_call>` contains `<invoke name="f">` with a `<parameter name="a">` for each argument.
"""

from mlxctl.ir import TagNotation
from mlxctl.parsers.call_tags import CallTags
from mlxctl.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.parsers.tagged_calls import TaggedCallsBody

_OPENER, _CLOSER, _INVOKE = "<minimax:tool_call>", "</minimax:tool_call>", "<invoke name="

_TAGS = CallTags(
    call_opener=_INVOKE,
    name_ends=">",
    call_closer="</invoke>",
    key_opener="<parameter name=",
    key_end=">",
    value_closer="</parameter>",
    block_closers=(_CLOSER,),
)


def _open_body(opening: Opening) -> TaggedCallsBody:
    return TaggedCallsBody(_TAGS, opening.tools)


def _force_call(name: str | None) -> str:
    return f'{_OPENER}\n{_INVOKE}"' if name is None else f'{_OPENER}\n{_INVOKE}"{name}">\n'


TOOLS = ToolParser(
    id="minimax_m2",
    opener=_OPENER,
    closer=_CLOSER,
    open_body=_open_body,
    forced_prefix=_force_call,
    closings=(
        Closing(
            prefix_end='">\n',
            call_end=f"</invoke>\n{_CLOSER}",
            call_separator="",
            block=(f"{_OPENER}\n", _CLOSER),
            notation=TagNotation(
                begin='<parameter name="{name}">', end="</parameter>\n", ends=("</parameter>",)
            ),
        ),
    ),
)
