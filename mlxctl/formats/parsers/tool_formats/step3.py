"""Tool calls of Step 3: `<steptml:invoke>` tags between control tokens.

`<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="f"><steptml:parameter
name="a">1</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>`.
"""

from mlxctl.formats.parsers.call_tags import CallTags
from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.tagged_calls import TaggedCallsBody
from mlxctl.ir import TagNotation

_CALLS, _CALL, _SEPARATOR = "<｜tool_calls_begin｜>", "<｜tool_call_begin｜>", "<｜tool_sep｜>"
_CALL_END, _CALLS_END = "<｜tool_call_end｜>", "<｜tool_calls_end｜>"
_INVOKE, _INVOKE_END = "<steptml:invoke name=", "</steptml:invoke>"
_HEAD = f"{_CALL}function{_SEPARATOR}{_INVOKE}"

_TAGS = CallTags(
    call_opener=_INVOKE,
    name_ends=">",
    call_closer=_INVOKE_END,
    key_opener="<steptml:parameter name=",
    key_end=">",
    value_closer="</steptml:parameter>",
    block_closers=(_CALL_END,),
)


def _open_body(opening: Opening) -> TaggedCallsBody:
    return TaggedCallsBody(_TAGS, opening.tools, is_named=True)


def _force_call(name: str | None) -> str:
    begin = f'{_CALLS}\n{_HEAD}"'
    return begin if name is None else f'{begin}{name}">'


TOOLS = ToolParser(
    id="step3",
    opener=_INVOKE,
    other_openers=tuple(
        f"{begin}{head}" for begin in ("", _CALLS, f"{_CALLS}\n") for head in (_HEAD, f"{_CALL}{_INVOKE}")
    ),
    closer=_CALLS_END,
    other_closers=(_CALLS, _CALL, _SEPARATOR, _CALL_END),
    open_body=_open_body,
    forced_prefix=_force_call,
    closings=(
        Closing(
            prefix_end='">',
            call_end=f"{_INVOKE_END}{_CALL_END}\n{_CALLS_END}",
            call_separator="\n",
            block=(f"{_CALLS}\n", f"\n{_CALLS_END}"),
            notation=TagNotation(
                begin='<steptml:parameter name="{name}">',
                end=_TAGS.value_closer,
                ends=(_TAGS.value_closer,),
                head=_INVOKE,
            ),
        ),
    ),
)
