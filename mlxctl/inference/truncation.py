"""Truncation of conversations that exceed the context length. Pure."""

from collections.abc import Callable
from dataclasses import replace

from mlxctl.ir import GenerationRequest

# Share of the context that is reserved for an answer without max_tokens.
_ANSWER_SHARE = 4


def truncate_oldest(
    request: GenerationRequest, count_tokens: Callable[[GenerationRequest], int], *, context_length: int
) -> GenerationRequest | None:
    """Drop as few of the oldest turns as leave room for an answer; None if no number does.

    A turn is a user message with all messages up to the next one, so that tool calls and their results stay
    together. System messages and the last turn stay. Calls `count_tokens` a logarithmic number of times.
    """
    share = context_length // _ANSWER_SHARE
    limit = context_length - (share if request.max_tokens is None else min(request.max_tokens, share))
    starts = [index for index, message in enumerate(request.messages) if message.role == "user"][1:]
    fewest, most = 0, len(starts)
    while fewest < most:
        middle = (fewest + most) // 2
        if count_tokens(_without(request, starts[middle])) <= limit:
            most = middle
        else:
            fewest = middle + 1
    return _without(request, starts[fewest]) if fewest < len(starts) else None


def _without(request: GenerationRequest, num_messages: int) -> GenerationRequest:
    """Return the request without its first messages, except system messages."""
    kept = tuple(message for message in request.messages[:num_messages] if message.role == "system")
    return replace(request, messages=kept + request.messages[num_messages:])
