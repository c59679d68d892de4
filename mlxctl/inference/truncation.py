"""Leave out the oldest turns of a conversation that is too long for its model.

Pure: how long a prompt is, others say.
"""

from collections.abc import Callable
from dataclasses import replace

from mlxctl.ir import GenerationRequest

# The part of the context that an answer of unknown length is left.
_ANSWER_SHARE = 4


def shortened(
    request: GenerationRequest, count_tokens: Callable[[GenerationRequest], int], *, context_length: int
) -> GenerationRequest | None:
    """Return the request without as many of its oldest turns as it takes to fit, with room for an answer;
    None if none does.

    A turn is a user's message and all that follows it, so that calls and their results stay together. What a
    system message says stays, wherever it stands, and so does the last turn. `count_tokens` is asked a
    logarithmic number of times.
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
    """Return the request without the first messages, but with what systems said among them."""
    kept = tuple(message for message in request.messages[:num_messages] if message.role == "system")
    return replace(request, messages=kept + request.messages[num_messages:])
