"""Tool calls of LongCat: a JSON object, or key and value tags.

Both are in `<longcat_tool_call>`. The tags are GLM's, with the prefix `longcat_`:
`f<longcat_arg_key>a</longcat_arg_key>` and `<longcat_arg_value>1</longcat_arg_value>`, each on a line.
"""

from mlxctl.formats.parsers.call_tags import CallTags, closed_key
from mlxctl.formats.parsers.declarations import BodyReader, Closing, Opening, ToolParser
from mlxctl.formats.parsers.first_character import FirstCharacterBody
from mlxctl.formats.parsers.json_calls import JsonCallsBody
from mlxctl.formats.parsers.json_value import quote
from mlxctl.formats.parsers.tagged_calls import TaggedCallsBody
from mlxctl.ir import TagNotation

_OPENER, _CLOSER = "<longcat_tool_call>", "</longcat_tool_call>"
_KEY, _KEY_CLOSER = "<longcat_arg_key>", "</longcat_arg_key>"
_VALUE, _VALUE_CLOSER = "<longcat_arg_value>", "</longcat_arg_value>"


_TAGS = CallTags(
    call_opener="",
    block_opener=_OPENER,
    name_ends="\n<",
    call_closer=_CLOSER,
    key_opener=_KEY,
    key_end=_VALUE,
    key_closer=_KEY_CLOSER,
    value_closer=_VALUE_CLOSER,
    read_key=closed_key(_KEY_CLOSER),
)


def _open_body(opening: Opening) -> BodyReader:
    def choose(first: str) -> BodyReader:
        return JsonCallsBody(opening.tools) if first == "{" else TaggedCallsBody(_TAGS, opening.tools)

    return FirstCharacterBody(choose)


def _force_object(name: str | None) -> str:
    return f"{_OPENER}\n" if name is None else f'{_OPENER}\n{{"name": {quote(name)}, "arguments":'


def _force_tags(name: str | None) -> str:
    return _OPENER if name is None else f"{_OPENER}{name}\n"


TOOLS = ToolParser(
    id="longcat",
    opener=_OPENER,
    closer=_CLOSER,
    open_body=_open_body,
    inner_markers=(_KEY, _KEY_CLOSER, _VALUE, _VALUE_CLOSER),
    forced_prefix=_force_object,
    dialects=(_force_tags,),
    arguments_opening=' {"',
    closings=(
        Closing(prefix_end='"arguments":', call_end=f"}}\n{_CLOSER}"),
        Closing(
            prefix_end="\n",
            call_end=_CLOSER,
            notation=TagNotation(
                begin=f"{_KEY}{{name}}{_KEY_CLOSER}\n{_VALUE}",
                end=f"{_VALUE_CLOSER}\n",
                ends=(),
                head=_OPENER,
                mark=_VALUE_CLOSER,
            ),
        ),
    ),
    separator="\n",
)
