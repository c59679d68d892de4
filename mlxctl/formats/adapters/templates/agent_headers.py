"""Volatile header lines that coding agents put into system prompts.

They change from call to call and stand at the start of a prompt, so nothing after them would match the prefix
cache. They are removed unless `server.strip_agent_headers` is off:

    x-anthropic-billing-header: cc_version=2.1.36.9b1; cc_entrypoint=cli; cch=4c1d0;
                                               Claude Code, first block of `system`
    cch=4c1d0;                                 the same on a line of its own
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from mlxctl.ir import Message, Part, TextPart

_VOLATILE_LINES = (r"x-anthropic-billing-header:[^\n]*", r"cch=[0-9a-fA-F]+;?[ \t]*")
_LEADING = re.compile(rf"(?:(?:{'|'.join(_VOLATILE_LINES)})(?:\n|\Z))+")

_ANYWHERE = re.compile("|".join(_VOLATILE_LINES))


def find_volatile(line: str) -> tuple[int, int] | None:
    """Return a volatile header's start and end in a line.

    None without one.
    """
    found = _ANYWHERE.search(line)
    return found.span() if found else None


def without_agent_headers(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages without volatile lines at the start of system texts."""
    return tuple(_stripped(message) if message.role == "system" else message for message in messages)


def _stripped(message: Message) -> Message:
    parts = tuple(_without(part) if isinstance(part, TextPart) else part for part in message.parts)
    if parts == message.parts:
        return message
    return replace(
        message, parts=tuple(part for part in parts if not isinstance(part, TextPart) or part.text)
    )


def _without(part: TextPart) -> Part:
    found = _LEADING.match(part.text)
    return TextPart(text=part.text[found.end() :]) if found else part
