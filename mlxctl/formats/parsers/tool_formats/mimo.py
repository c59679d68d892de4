"""Tool calls of MiMo V2: Qwen3-Coder's tags, but values are verbatim.

Line breaks around a value belong to it. Between tags they mean nothing: some of the models write them.
"""

from dataclasses import replace

from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.tagged_calls import TaggedCallsBody
from mlxctl.formats.parsers.tool_formats.qwen3_coder import TAGS as QWEN_TAGS
from mlxctl.ir import TagNotation

_OPENER, _CLOSER, _FUNCTION, _FUNCTION_CLOSER = "<tool_call>", "</tool_call>", "<function=", "</function>"
_TAGS = replace(QWEN_TAGS, trims="", block_closers=(_CLOSER,))


def _open_body(opening: Opening) -> TaggedCallsBody:
    return TaggedCallsBody(_TAGS, opening.tools, is_named=opening.marker == _FUNCTION)


def _force_call(name: str | None) -> str:
    return f"{_OPENER}{_FUNCTION}" if name is None else f"{_OPENER}{_FUNCTION}{name}>"


def _force_on_lines(name: str | None) -> str:
    return f"{_OPENER}\n{_FUNCTION}" if name is None else f"{_OPENER}\n{_FUNCTION}{name}>\n"


def _closing(line_break: str) -> Closing:
    end = f"{_TAGS.value_closer}{line_break}"
    return Closing(
        prefix_end=f">{line_break}",
        call_end=f"{_FUNCTION_CLOSER}{line_break}{_CLOSER}",
        notation=TagNotation(
            begin=f"{_TAGS.key_opener}{{name}}>",
            end=end,
            ends=(_TAGS.value_closer, "\n" + _FUNCTION_CLOSER),
            head=_FUNCTION,
            next_argument="\n" + _TAGS.key_opener,
        ),
    )


TOOLS = ToolParser(
    id="mimo",
    opener=_OPENER,
    other_openers=(_FUNCTION,),
    closer=_CLOSER,
    inner_markers=(_TAGS.key_opener,),
    open_body=_open_body,
    forced_prefix=_force_call,
    dialects=(_force_on_lines,),
    closings=(_closing("\n"), _closing("")),
    separator="\n",
)
