"""Cache breakpoints: `cache_control` on a tool, a block or the request.

A breakpoint covers the whole prompt before it. Of two breakpoints with different times to live, the longer
one applies up to its position.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal

import msgspec

from mlxctl.ir import CacheBreakpoint, CacheOptions, GenerationRequest
from mlxctl.protocols.anthropic import messages_schema as schema
from mlxctl.protocols.anthropic.content_blocks import CacheControl

Request = schema.CountTokensRequest
_LONG: Literal["1h"] = "1h"
_SECONDS = {"5m": 300.0, _LONG: 3600.0}


def cache_controls(request: Request) -> list[CacheControl]:
    """Return the breakpoints of a request in prompt order."""
    return [mark for mark, _ in _breakpoints(request)]


def last_is_long(marks: Sequence[CacheControl]) -> bool:
    """Whether the last breakpoint has the one-hour time to live."""
    return bool(marks) and marks[-1].ttl == _LONG


def breakpoint_options(
    request: Request, read: Callable[[Request], GenerationRequest], whole: GenerationRequest
) -> CacheOptions:
    """Return the cache options of a request's breakpoints.

    `read` translates a request's prompt; `whole` is the translation of all of it.
    """
    marks = list(_breakpoints(request))
    longest = max((_SECONDS[mark.ttl] for mark, _ in marks if mark.ttl is not None), default=None)
    place = max((place for place, (mark, _) in enumerate(marks) if mark.ttl == _LONG), default=None)
    if place is None or place == len(marks) - 1:
        return CacheOptions(ttl_seconds=longest)
    beginning = read(msgspec.structs.replace(marks[place][1](), tool_choice=None))
    num_messages = len(beginning.messages)
    long_ttl = CacheBreakpoint(
        ttl_seconds=_SECONDS[_LONG],
        num_tools=len(beginning.tools),
        num_messages=num_messages,
        num_excluded_parts=len(whole.messages[num_messages - 1].parts) - len(beginning.messages[-1].parts)
        if num_messages
        else 0,
    )
    # A breakpoint without a ttl sets none: the longest one then applies to all.
    is_shorter = any(mark.ttl is not None for mark, _ in marks[place + 1 :])
    return CacheOptions(ttl_seconds=_SECONDS["5m"] if is_shorter else longest, long_ttl=long_ttl)


def _breakpoints(request: Request) -> Iterator[tuple[CacheControl, Callable[[], Request]]]:
    """Yield breakpoints, each with a function for the request up to it."""
    for place, part, beginning in _places(request):
        inner = _listed(getattr(part, "content", None)) if place == "block" else ()
        for marked in (*inner, part):
            mark = getattr(marked, "cache_control", None)
            if mark is not None:
                yield mark, beginning


def _places(request: Request) -> Iterator[tuple[str, Any, Callable[[], Request]]]:
    """Yield everything that may have a breakpoint, in prompt order."""
    up_to = partial(msgspec.structs.replace, request)
    for index, tool in enumerate(request.tools or ()):
        yield "tool", tool, partial(up_to, tools=(request.tools or [])[: index + 1], system=None, messages=[])
    for index, block in enumerate(_listed(request.system)):
        yield "system", block, partial(up_to, system=_listed(request.system)[: index + 1], messages=[])
    for number, message in enumerate(request.messages):
        blocks = _listed(message.content)
        for index, block in enumerate(blocks):
            yield "block", block, partial(_cut, request, number, index + 1)
    yield "request", request, partial(up_to)


def _cut(request: Request, number: int, num_blocks: int) -> Request:
    """Return the request up to the first blocks of a message."""
    message: Any = request.messages[number]
    last = msgspec.structs.replace(message, content=message.content[:num_blocks])
    return msgspec.structs.replace(request, messages=[*request.messages[:number], last])


def _listed(content: Any) -> list[Any]:
    return content if isinstance(content, list) else []
