"""Shortening of prompts that exceed the context. Pure."""

from collections.abc import Callable
from dataclasses import replace

from mlxctl.formats.adapters.prepared import NormalizedRequest
from mlxctl.ir import Message, TextPart, ThinkingPart, ToolResultPart

# Share of the context that is reserved for an answer without max_tokens.
_ANSWER_SHARE = 4

REMOVED = TextPart(text="[removed to save context]")
"""The content of a removed tool result."""

CountTokens = Callable[[NormalizedRequest], int]


def shorten(
    request: NormalizedRequest, count_tokens: CountTokens, *, context_length: int
) -> NormalizedRequest | None:
    """Return the request as its `context_overflow` shortens it.

    None if that leaves no room for an answer.
    `compact` first removes thinking and the contents of tool results before the last turn, then drops the
    oldest turns as `drop_oldest` does.
    """
    if request.context_overflow == "compact":
        request = _compacted(request)
        if count_tokens(request) <= max_prompt_tokens(request, context_length):
            return request
    return truncate_oldest(request, count_tokens, context_length=context_length)


def truncate_oldest(
    request: NormalizedRequest, count_tokens: CountTokens, *, context_length: int
) -> NormalizedRequest | None:
    """Drop the fewest oldest turns that leave room for an answer.

    None if no number does. A turn is a user message with all messages up to the next one, so that tool calls
    and their results stay together. System messages and the last turn stay. Calls `count_tokens` a
    logarithmic number of times.
    """
    limit = max_prompt_tokens(request, context_length)
    starts = _turn_starts(request)[1:]
    fewest, most = 0, len(starts)
    while fewest < most:
        middle = (fewest + most) // 2
        if count_tokens(_without(request, starts[middle])) <= limit:
            most = middle
        else:
            fewest = middle + 1
    return _without(request, starts[fewest]) if fewest < len(starts) else None


def max_prompt_tokens(request: NormalizedRequest, context_length: int) -> int:
    """Return the most tokens of a shortened prompt.

    They leave room for an answer.
    """
    share = context_length // _ANSWER_SHARE
    return context_length - (share if request.max_tokens is None else min(request.max_tokens, share))


def _turn_starts(request: NormalizedRequest) -> list[int]:
    return [index for index, message in enumerate(request.messages) if message.role == "user"]


def _without(request: NormalizedRequest, num_messages: int) -> NormalizedRequest:
    """Return the request without its first messages, except system messages."""
    kept = tuple(message for message in request.messages[:num_messages] if message.role == "system")
    return replace(request, messages=kept + request.messages[num_messages:])


def _compacted(request: NormalizedRequest) -> NormalizedRequest:
    last_turn = max(_turn_starts(request), default=0)
    before = tuple(map(_without_details, request.messages[:last_turn]))
    return replace(request, messages=before + request.messages[last_turn:])


def _without_details(message: Message) -> Message:
    parts = [part for part in message.parts if not isinstance(part, ThinkingPart)]
    return replace(
        message,
        parts=tuple(
            replace(part, content=(REMOVED,)) if isinstance(part, ToolResultPart) else part for part in parts
        ),
    )
