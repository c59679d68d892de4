"""Tool calls of dots: MiniMax M2's in `<dots_function_call>`, or a JSON object."""

from mlxctl.ir import TagNotation
from mlxctl.parsers.call_tags import CallTags
from mlxctl.parsers.declarations import BodyReader, Closing, Opening, ToolParser
from mlxctl.parsers.first_character import FirstCharacterBody
from mlxctl.parsers.json_calls import JsonCallsBody
from mlxctl.parsers.tagged_calls import TaggedCallsBody

_OPENER, _CLOSER, _INVOKE = "<dots_function_call>", "</dots_function_call>", "<invoke name="

_TAGS = CallTags(
    call_opener=_INVOKE,
    name_ends=">",
    call_closer="</invoke>",
    key_opener="<parameter name=",
    key_end=">",
    value_closer="</parameter>",
    block_closers=(_CLOSER,),
)


def _open_body(opening: Opening) -> BodyReader:
    def choose(first: str) -> BodyReader:
        return JsonCallsBody(opening.tools) if first in "{[" else TaggedCallsBody(_TAGS, opening.tools)

    return FirstCharacterBody(choose)


def _force_call(name: str | None) -> str:
    return f'{_OPENER}\n{_INVOKE}"' if name is None else f'{_OPENER}\n{_INVOKE}"{name}">\n'


TOOLS = ToolParser(
    id="dots",
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
