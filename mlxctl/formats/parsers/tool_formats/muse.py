"""Tool calls of Muse: a message to the tool.

`<|start|>assistant to=f<|message|><atem:function_calls><atem:invoke name="f"><atem:parameter
name="a">1</atem:parameter>…`. A message to another recipient may quote calls, so the message header is the
marker.
"""

import re
from collections.abc import Sequence

from mlxctl.formats.parsers.call_tags import CallTags
from mlxctl.formats.parsers.declarations import WHITESPACE, BodyRejected, Closing, Opening, Signal, ToolParser
from mlxctl.formats.parsers.tagged_calls import TaggedCallsBody
from mlxctl.ir import TagNotation

_OPENER, _MESSAGE, _MESSAGE_END = "<|start|>assistant to=", "<|message|>", "<|eom|>"
_CALLS, _CALLS_END, _INVOKE = "<atem:function_calls>", "</atem:function_calls>", "<atem:invoke name="
_BARE_HEADER, _MAX_HEAD_CHARS = " to=", 256
_RECIPIENT = re.compile(r"[\w.:/-]*")

_TAGS = CallTags(
    call_opener=_INVOKE,
    block_opener=_CALLS,
    name_ends=">",
    call_closer="</atem:invoke>",
    key_opener="<atem:parameter name=",
    key_end=">",
    value_closer="</atem:parameter>",
    block_closers=(_CALLS_END,),
)


class _MessageBody:
    """Parses a message header and its calls; rejects other messages."""

    def __init__(self, opening: Opening) -> None:
        self._is_bare = not opening.marker
        self._calls = TaggedCallsBody(_TAGS, opening.tools)
        self._has_head = False

    def read(self, text: str, start: int) -> tuple[int, Sequence[Signal]]:
        """Parse up to the next decision; headers are parsed once whole."""
        return self._calls.read(text, start) if self._has_head else self._read_head(text, start)

    def finish(self, rest: str) -> Sequence[Signal]:
        """End a started call as incomplete; other text is rejected."""
        return self._calls.finish(rest) if self._has_head else (BodyRejected(),)

    def _read_head(self, text: str, at: int) -> tuple[int, Sequence[Signal]]:
        begin = at + len(_BARE_HEADER) * self._is_bare
        recipient = _RECIPIENT.match(text, begin)
        assert recipient is not None, "it may be empty"
        end = recipient.end()
        if not text.startswith(_MESSAGE, end):
            may_come = _MESSAGE.startswith(text[end:]) and end - at <= _MAX_HEAD_CHARS
            return at, () if may_come else (BodyRejected(),)
        message = end + len(_MESSAGE)
        after = _skip_white_space(text, message)
        if text.startswith(_CALLS, after):
            after = _skip_white_space(text, after + len(_CALLS))
        if text.startswith(_INVOKE, after):
            self._has_head = True
            return self._calls.read(text, after)
        rest = text[after:]
        return (
            (at, ()) if _CALLS.startswith(rest) or _INVOKE.startswith(rest) else (message, (BodyRejected(),))
        )


def _skip_white_space(text: str, at: int) -> int:
    return len(text) - len(text[at:].lstrip(WHITESPACE))


def _force_call(name: str | None) -> str:
    return _OPENER if name is None else f'{_OPENER}{name}{_MESSAGE}{_CALLS}\n{_INVOKE}"{name}">\n'


TOOLS = ToolParser(
    id="muse",
    opener=_OPENER,
    other_openers=(f"{_MESSAGE_END}assistant to=", f"{_MESSAGE_END} to=", "<|start|>assistantto="),
    bare_calls=lambda name: (f"{_BARE_HEADER}{name}{_MESSAGE}{_CALLS}",),
    closer=_CALLS_END,
    other_closers=(_MESSAGE_END, "<|eot|>"),
    open_body=_MessageBody,
    inner_markers=("<|start|>", _MESSAGE),
    forced_prefix=_force_call,
    closings=(
        Closing(
            prefix_end='">\n',
            call_end=f"</atem:invoke>\n{_CALLS_END}",
            notation=TagNotation(
                begin='<atem:parameter name="{name}">',
                end="</atem:parameter>\n",
                ends=("</atem:parameter>",),
                head=_INVOKE,
            ),
        ),
    ),
)
