"""Tool calls of K2 Horizon: tags of keys and values.

Or a JSON object. `<ifm|tool_calls>` contains `<ifm|tool_call>f` with `<ifm|arg_key>a</ifm|arg_key>` and
`<ifm|arg_value>1</ifm|arg_value>` for each argument, perhaps with `<ifm|arg_type>` between them.
"""

import re

from mlxctl.formats.parsers.call_tags import CallTags
from mlxctl.formats.parsers.declarations import BodyReader, Closing, Opening, ToolParser
from mlxctl.formats.parsers.first_character import FirstCharacterBody
from mlxctl.formats.parsers.json_calls import JsonCallsBody
from mlxctl.formats.parsers.tagged_calls import TaggedCallsBody
from mlxctl.ir import TagNotation

_CALLS, _CALLS_END = "<ifm|tool_calls>", "</ifm|tool_calls>"
_CALL, _CALL_END = "<ifm|tool_call>", "</ifm|tool_call>"
_KEY, _KEY_END, _VALUE, _VALUE_END = (
    "<ifm|arg_key>", "</ifm|arg_key>", "<ifm|arg_value>", "</ifm|arg_value>"
)  # fmt: skip
_TYPE, _TYPE_END = "<ifm|arg_type>", "</ifm|arg_type>"
_KEY_TAG = re.compile(
    rf"\s*(?P<name>[^\n<]+?)\s*{re.escape(_KEY_END)}\s*"
    rf"(?:{re.escape(_TYPE)}\s*(?P<type>\w*)\s*{re.escape(_TYPE_END)}\s*)?"
)


def _read_key(tag: str) -> tuple[str, bool | None] | None:
    found = _KEY_TAG.fullmatch(tag)
    if found is None:
        return None
    return found["name"], None if not found["type"] else found["type"] == "string"


_TAGS = CallTags(
    call_opener="",
    block_opener=_CALL,
    name_ends="<",
    call_closer=_CALL_END,
    key_opener=_KEY,
    key_end=_VALUE,
    key_closer=_KEY_END,
    value_closer=_VALUE_END,
    read_key=_read_key,
)


def _open_body(opening: Opening) -> BodyReader:
    def choose(first: str) -> BodyReader:
        return JsonCallsBody(opening.tools) if first == "{" else TaggedCallsBody(_TAGS, opening.tools)

    return FirstCharacterBody(choose)


def _force_tags(name: str | None) -> str:
    return f"{_CALLS}{_CALL}" if name is None else f"{_CALLS}{_CALL}{name}"


def _force_object(name: str | None) -> str:
    begin = f'{_CALLS}{_CALL}{{"name": "'
    return begin if name is None else f'{begin}{name}", "arguments":'


TOOLS = ToolParser(
    id="k2_horizon",
    opener=_CALL,
    closer=_CALL_END,
    other_openers=(f"{_CALLS}{_CALL}", f"{_CALLS}\n{_CALL}"),
    other_closers=(_CALLS, _CALLS_END),
    open_body=_open_body,
    inner_markers=(_KEY, _KEY_END, _VALUE, _VALUE_END, _TYPE, _TYPE_END),
    forced_prefix=_force_tags,
    dialects=(_force_object,),
    closings=(
        Closing(
            prefix_end='"arguments":',
            call_end=f"}}{_CALL_END}{_CALLS_END}",
            call_separator="\n",
            block=(_CALLS, _CALLS_END),
        ),
        Closing(
            prefix_end="",
            call_end=f"{_CALL_END}{_CALLS_END}",
            call_separator="\n",
            block=(_CALLS, _CALLS_END),
            notation=TagNotation(
                begin=f"{_KEY}{{name}}{_KEY_END}{_VALUE}",
                end=_VALUE_END,
                ends=(),
                head=_CALL,
                mark=_VALUE_END,
            ),
        ),
    ),
)
