"""Which earlier request a request is to be compared with: the one that could have served most of its prompt.

Pure.
"""

from collections.abc import Sequence

from mlxctl.inference.cache.recent_prompts import SeenRequest
from mlxctl.ir import GenerationRequest, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from mlxctl.ir.tokens import common_tokens
from mlxctl.prefix_cache.policy import MIN_REUSE_TOKENS

# Samples of a request's own texts, without the chat template's: how many of them another request holds says
# how alike they are.
_NUM_SAMPLES, _SAMPLE_CHARS = 32, 40


def closest(seen: SeenRequest, others: Sequence[SeenRequest]) -> tuple[SeenRequest | None, int]:
    """Return the request to compare with, and how many leading tokens they share; one of the same session
    wins over others.

    This is the one with the longest common beginning, the newest of equals. Where that is only a small part
    of the prompt, it is the one with the most alike text, whose beginning may have changed.
    """
    session = seen.request.session_id
    if session is not None:
        found = _closest(seen, [other for other in others if other.request.session_id == session])
        if found[0] is not None:
            return found
    return _closest(seen, others)


def _closest(seen: SeenRequest, others: Sequence[SeenRequest]) -> tuple[SeenRequest | None, int]:
    # What differs in nothing but its images is close, however early these come.
    alike = [other for other in others if common_tokens(seen.prompt_ids, other.token_ids) >= MIN_REUSE_TOKENS]
    best = max(alike, key=lambda other: (_num_common(seen, other), other.number), default=None)
    num_best = _num_common(seen, best) if best is not None else 0
    if 4 * num_best < len(seen.prompt_ids):
        samples = _samples(_own_text(seen.request))
        likeness = {other.number: _likeness(samples, other) for other in others}
        rival = max(
            others,
            key=lambda other: (likeness[other.number], _num_common(seen, other), other.number),
            default=None,
        )
        least = max(1, len(samples) // 4, 2 * likeness[best.number] + 1 if best is not None else 0)
        if rival is not None and likeness[rival.number] >= least:
            return rival, _num_common(seen, rival)
    return best, num_best


def _num_common(seen: SeenRequest, other: SeenRequest) -> int:
    return common_tokens(seen.prompt_ids, other.token_ids, seen.salts, other.salts)


def _likeness(samples: Sequence[str], other: SeenRequest) -> int:
    text = _own_text(other.request)
    return sum(sample in text for sample in samples)


def _samples(text: str) -> list[str]:
    """Return evenly spread pieces of the text; none of a text shorter than one piece, which cannot be
    identified.
    """
    num = len(text) // _SAMPLE_CHARS
    step = max(1, num // _NUM_SAMPLES)
    return [text[_SAMPLE_CHARS * place : _SAMPLE_CHARS * (place + 1)] for place in range(0, num, step)]


def _own_text(request: GenerationRequest) -> str:
    """Return everything that the caller said, one piece after another."""
    said = [text for message in request.messages for part in message.parts for text in _texts(part)]
    offered = [text for tool in request.tools for text in (tool.name, tool.description)]
    return "\n".join([*said, *offered, *(prompt for prompt in request.prompts if isinstance(prompt, str))])


def _texts(part: Part) -> Sequence[str]:
    match part:
        case TextPart() | ThinkingPart() | ToolResultPart():
            return (part.text,)
        case ToolCallPart():
            return (part.name, part.arguments)
    return ()
