"""Tool calls of GLM 4.5 to 4.7, IQuest Q1: key, value tags.

`<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>`. Before 4.7 there are line breaks
between the tags; IQuest Q1 writes `<iquest_tool_call>`. Strings are written unchanged, other values as JSON.
The models sometimes write a call as one JSON object, or escape line breaks and quotation marks.
"""

from dataclasses import replace

from mlxctl.formats.parsers.call_tags import CallTags, closed_key
from mlxctl.formats.parsers.declarations import BodyReader, Closing, Opening, ToolParser
from mlxctl.formats.parsers.first_character import FirstCharacterBody
from mlxctl.formats.parsers.json_calls import JsonCallsBody
from mlxctl.formats.parsers.tagged_calls import TaggedCallsBody
from mlxctl.ir import TagNotation

_OPENER, _CLOSER = "<tool_call>", "</tool_call>"
_IQUEST_OPENER, _IQUEST_CLOSER = "<iquest_tool_call>", "</iquest_tool_call>"
_KEY, _KEY_CLOSER = "<arg_key>", "</arg_key>"


def _value_ends(call_closer: str) -> tuple[str, ...]:
    return tuple(f"{space}{tag}" for space in ("\n", "") for tag in (_KEY, call_closer))


_TAGS = CallTags(
    call_opener="",
    block_opener=_OPENER,
    name_ends="\n<",
    call_closer=_CLOSER,
    key_opener=_KEY,
    key_end="<arg_value>",
    key_closer=_KEY_CLOSER,
    value_closer="</arg_value>",
    value_ends=_value_ends(_CLOSER),
    read_key=closed_key(_KEY_CLOSER),
)
_IQUEST_TAGS = replace(
    _TAGS, block_opener=_IQUEST_OPENER, call_closer=_IQUEST_CLOSER, value_ends=_value_ends(_IQUEST_CLOSER)
)


def _open_body(opening: Opening) -> BodyReader:
    tags = _IQUEST_TAGS if opening.marker == _IQUEST_OPENER else _TAGS

    def choose(first: str) -> BodyReader:
        return JsonCallsBody(opening.tools) if first == "{" else TaggedCallsBody(tags, opening.tools)

    return FirstCharacterBody(choose)


def _force_on_one_line(name: str | None) -> str:
    return _OPENER + (name or "")


def _force_on_lines(name: str | None) -> str:
    return _OPENER if name is None else f"{_OPENER}{name}\n"


def _force_iquest(name: str | None) -> str:
    return _IQUEST_OPENER + (name or "")


def _notation(between: str, tags: CallTags = _TAGS) -> TagNotation:
    return TagNotation(
        begin=f"{_KEY}{{name}}{_KEY_CLOSER}{between}<arg_value>",
        end=f"{tags.value_closer}{between}",
        ends=(tags.value_closer, tags.call_closer),
        head=tags.block_opener,
        next_argument=_KEY,
    )


TOOLS = ToolParser(
    id="glm4_native",
    opener=_OPENER,
    other_openers=(_IQUEST_OPENER,),
    closer=_CLOSER,
    other_closers=(_IQUEST_CLOSER,),
    open_body=_open_body,
    inner_markers=(_KEY, _KEY_CLOSER, "<arg_value>", "</arg_value>"),
    forced_prefix=_force_on_one_line,
    dialects=(_force_on_lines, _force_iquest),
    separator="\n",
    closings=(
        Closing(
            prefix_start=_IQUEST_OPENER,
            prefix_end="",
            call_end=_IQUEST_CLOSER,
            notation=_notation("", _IQUEST_TAGS),
        ),
        Closing(prefix_end="\n", call_end=_CLOSER, notation=_notation("\n")),
        Closing(prefix_end="", call_end=_CLOSER, notation=_notation("")),
    ),
)
