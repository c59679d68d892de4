"""Tool calls of FunctionGemma: `<start_function_call>call:f{a:<escape>text<escape>}<end_function_call>`."""

from mlxctl.formats.parsers.brace_calls import BraceCallsBody
from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.ir import BraceNotation

_OPENER, _CLOSER, _MARK = "<start_function_call>", "<end_function_call>", "<escape>"


def _open_body(opening: Opening) -> BraceCallsBody:
    return BraceCallsBody(opening.tools, _MARK, _OPENER, _CLOSER)


def _force_call(name: str | None) -> str:
    return f"{_OPENER}call:" if name is None else f"{_OPENER}call:{name}{{"


TOOLS = ToolParser(
    id="function_gemma",
    opener=_OPENER,
    closer=_CLOSER,
    open_body=_open_body,
    inner_markers=(_MARK,),
    forced_prefix=_force_call,
    closings=(Closing(prefix_end="{", call_end=f"}}{_CLOSER}", notation=BraceNotation(mark=_MARK)),),
    separator="",
)
