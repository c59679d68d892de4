"""Tool calls of Qwen3-Coder and Qwen 3.5: `<parameter=a>` tags.

`<tool_call>` contains `<function=f>` with a `<parameter=a>` for each argument. Values are on lines of their
own. The models sometimes omit the outer tag before a call, the end of a function's tag, or a parameter's
closing tag.
"""

from mlxctl.formats.parsers.call_tags import CallTags, untyped_as_string
from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.tagged_calls import TaggedCallsBody
from mlxctl.ir import TagNotation

_OPENER, _FUNCTION, _PARAMETER = "<tool_call>", "<function=", "<parameter="
_FUNCTION_CLOSER = "</function>"

TAGS = CallTags(
    call_opener=_FUNCTION,
    block_opener=_OPENER,
    name_ends="><",
    call_closer=_FUNCTION_CLOSER,
    key_opener=_PARAMETER,
    key_end=">",
    value_closer="</parameter>",
    value_ends=("\n" + _PARAMETER, "\n" + _FUNCTION_CLOSER),
    trims="\n",
    trims_sides_alone=True,
    block_closers=("</tool_call>", "</seed:tool_call>"),
    read_value=untyped_as_string,
)

NOTATION = TagNotation(
    begin=f"{_PARAMETER}{{name}}>\n",
    end="\n</parameter>\n",
    ends=(TAGS.value_closer, "\n" + _FUNCTION_CLOSER),
    head=_FUNCTION,
    next_argument="\n" + _PARAMETER,
)


def _open_body(opening: Opening) -> TaggedCallsBody:
    return TaggedCallsBody(TAGS, opening.tools, is_named=opening.marker == _FUNCTION)


def _force_call(name: str | None) -> str:
    return f"{_OPENER}\n{_FUNCTION}" if name is None else f"{_OPENER}\n{_FUNCTION}{name}>\n"


TOOLS = ToolParser(
    id="qwen3_coder",
    opener=_OPENER,
    other_openers=(_FUNCTION,),
    closer="</tool_call>",
    inner_markers=(_PARAMETER,),
    open_body=_open_body,
    forced_prefix=_force_call,
    closings=(Closing(prefix_end=">\n", call_end=f"{_FUNCTION_CLOSER}\n</tool_call>", notation=NOTATION),),
    separator="\n",
)
