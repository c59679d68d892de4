"""Tool calls that are JSON objects between markers: a row each."""

from collections.abc import Callable
from functools import partial

from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.json_calls import CallObject, JsonCallsBody
from mlxctl.formats.parsers.json_value import quote

# How models continue after the colon before a call's arguments.
_ARGUMENTS = ' {"'
_PHI4_WORD = "functools["
_XLAM_MARKERS = ("[TOOL_CALLS]", "<tool_call>")
_INTERNLM2_ACTION, _INTERNLM2_PLUGIN = "<|action_start|>", "<|plugin|>"
_GIGACHAT3_ROLE = "function call<|role_sep|>\n"
_GIGACHAT3_MESSAGE = f"<|message_sep|>\n\n{_GIGACHAT3_ROLE}"


def _open_body(opening: Opening, syntax: CallObject | None = None) -> JsonCallsBody:
    return JsonCallsBody(opening.tools, syntax or CallObject())


def _open_phi4(opening: Opening) -> JsonCallsBody:
    return JsonCallsBody(opening.tools, is_in_list=opening.marker == _PHI4_WORD)


def _open_functools(opening: Opening) -> JsonCallsBody:
    return JsonCallsBody(opening.tools, is_in_list=True)


def _open_xlam(opening: Opening) -> JsonCallsBody:
    # Without a marker, only calls of available tools count.
    return _open_body(opening, None if opening.marker in _XLAM_MARKERS else CallObject(is_bare=True))


def _force(start: str, *, any_tool: str | None = None, key: str = "arguments") -> Callable[[str | None], str]:
    """Return the function of a forced prefix.

    Of any tool it is `any_tool`, by default `start`; of a named one, its call after `start`.
    """

    def force(name: str | None) -> str:
        if name is None:
            return start if any_tool is None else any_tool
        return f'{start}{{"name": {quote(name)}, "{key}":'

    return force


def _in_list(opener: str, closer: str = "") -> tuple[Closing]:
    """Return the closing of a list of calls between two markers."""
    return (
        Closing(
            prefix_end='"arguments":',
            call_end=f"}}]{closer}",
            call_separator=", ",
            block=(f"{opener}[", f"]{closer}"),
        ),
    )


_ROWS = (
    # Hermes, Qwen 2.5, Qwen3, Granite 4 and others. No space after the forced colon: the next token has it.
    ToolParser(
        id="hermes_json",
        opener="<tool_call>",
        closer="</tool_call>",
        open_body=_open_body,
        forced_prefix=_force("<tool_call>\n"),
        arguments_opening=_ARGUMENTS,
        closings=(Closing(prefix_end='"arguments":', call_end="}\n</tool_call>"),),
        separator="\n",
    ),
    # Granite 3. There is no closing marker. Where the marker is no token, the models write `<tool_call>`.
    ToolParser(
        id="granite",
        opener="<|tool_call|>",
        other_openers=("<tool_call>",),
        other_closers=("</tool_call>",),
        open_body=_open_body,
        forced_prefix=_force("<|tool_call|>[", any_tool="<|tool_call|>"),
        arguments_opening=_ARGUMENTS,
        closings=_in_list("<|tool_call|>"),
    ),
    # Granite 20B writes no closing marker.
    ToolParser(
        id="granite_20b",
        opener="<function_call>",
        closer="</function_call>",
        open_body=_open_body,
        forced_prefix=_force("<function_call> ", any_tool="<function_call>"),
        arguments_opening=_ARGUMENTS,
        closings=(Closing(prefix_end='"arguments":', call_end="}"),),
        separator="\n",
    ),
    # Phi-4-mini: a list between the markers, or after a word.
    ToolParser(
        id="phi4",
        opener="<|tool_call|>",
        other_openers=(_PHI4_WORD,),
        closer="<|/tool_call|>",
        open_body=_open_phi4,
        forced_prefix=_force("<|tool_call|>[", any_tool="<|tool_call|>"),
        arguments_opening=_ARGUMENTS,
        closings=_in_list("<|tool_call|>", "<|/tool_call|>"),
    ),
    # Nemotron Nano 2.
    ToolParser(
        id="nemotron",
        opener="<TOOLCALL>",
        closer="</TOOLCALL>",
        open_body=_open_body,
        forced_prefix=_force("<TOOLCALL>["),
        arguments_opening=_ARGUMENTS,
        closings=_in_list("<TOOLCALL>", "</TOOLCALL>"),
    ),
    # Firefunction: a list after a word.
    ToolParser(
        id="functools",
        opener="functools[",
        open_body=_open_functools,
        forced_prefix=_force("functools["),
        arguments_opening=_ARGUMENTS,
        closings=_in_list("functools"),
    ),
    # xLAM: at the start of the answer or of a code block, or after the marker of another format.
    ToolParser(
        id="xlam",
        opener=_XLAM_MARKERS[0],
        other_openers=(*_XLAM_MARKERS[1:], "```json"),
        closer="```",
        other_closers=("</tool_call>",),
        bare_openers="[{",
        open_body=_open_xlam,
        forced_prefix=_force("["),
        arguments_opening=_ARGUMENTS,
        closings=_in_list(""),
    ),
    # InternLM 2.
    ToolParser(
        id="internlm2",
        opener=f"{_INTERNLM2_ACTION}{_INTERNLM2_PLUGIN}",
        other_openers=(f"{_INTERNLM2_ACTION} {_INTERNLM2_PLUGIN}",),
        closer="<|action_end|>",
        open_body=partial(_open_body, syntax=CallObject(argument_keys=("parameters", "arguments"))),
        forced_prefix=_force(f"{_INTERNLM2_ACTION}{_INTERNLM2_PLUGIN}\n", key="parameters"),
        arguments_opening=_ARGUMENTS,
        closings=(Closing(prefix_end='"parameters":', call_end="}<|action_end|>"),),
        separator="\n",
    ),
    # GigaChat 3: in a message with the role `function call`, or after a token.
    ToolParser(
        id="gigachat3",
        opener="<|function_call|>",
        other_openers=(_GIGACHAT3_MESSAGE, _GIGACHAT3_ROLE),
        closer="<|message_sep|>",
        open_body=_open_body,
        forced_prefix=_force("<|function_call|>"),
        dialects=(_force(_GIGACHAT3_MESSAGE),),
        arguments_opening=_ARGUMENTS,
        closings=(Closing(prefix_end='"arguments":', call_end="}"),),
    ),
)
TOOLS = {parser.id: parser for parser in _ROWS}
