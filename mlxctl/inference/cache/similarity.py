"""Selection of the earlier prompt to compare with. Pure."""

from collections.abc import Sequence

from mlxctl.inference.cache.recent_prompts import RecordedPrompt
from mlxctl.ir import GenerationRequest, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from mlxctl.ir.tokens import common_tokens
from mlxctl.prefix_cache.policy import MIN_REUSE_TOKENS

# Number and length of text samples; similarity is the number of them that another request contains.
_NUM_SAMPLES, _SAMPLE_CHARS = 32, 40


def most_similar(
    recorded: RecordedPrompt, others: Sequence[RecordedPrompt]
) -> tuple[RecordedPrompt | None, int]:
    """Return the most similar prompt and the number of shared leading tokens.

    Prompts of the same session come first. The one with the longest common prefix wins, the newest of equals;
    where that is only a small part of the prompt, the one with the most shared text, whose beginning may have
    changed.
    """
    session = recorded.request.cache.session_id
    if session is not None:
        found = _most_similar(
            recorded, [other for other in others if other.request.cache.session_id == session]
        )
        if found[0] is not None:
            return found
    return _most_similar(recorded, others)


def _most_similar(
    recorded: RecordedPrompt, others: Sequence[RecordedPrompt]
) -> tuple[RecordedPrompt | None, int]:
    # Prompts that differ only in images are similar, however early the images come.
    comparable = [
        other for other in others if common_tokens(recorded.prompt_ids, other.token_ids) >= MIN_REUSE_TOKENS
    ]
    best = max(comparable, key=lambda other: (_num_common(recorded, other), other.number), default=None)
    num_best = _num_common(recorded, best) if best is not None else 0
    if 4 * num_best < len(recorded.prompt_ids):
        samples = _samples(_own_text(recorded.request))
        num_shared = {other.number: _count_shared_samples(samples, other) for other in others}
        candidate = max(
            others,
            key=lambda other: (num_shared[other.number], _num_common(recorded, other), other.number),
            default=None,
        )
        min_shared = max(1, len(samples) // 4, 2 * num_shared[best.number] + 1 if best is not None else 0)
        if candidate is not None and num_shared[candidate.number] >= min_shared:
            return candidate, _num_common(recorded, candidate)
    return best, num_best


def _num_common(recorded: RecordedPrompt, other: RecordedPrompt) -> int:
    return common_tokens(recorded.prompt_ids, other.token_ids, recorded.salts, other.salts)


def _count_shared_samples(samples: Sequence[str], other: RecordedPrompt) -> int:
    text = _own_text(other.request)
    return sum(sample in text for sample in samples)


def _samples(text: str) -> list[str]:
    """Return evenly spaced pieces of the text.

    None of a text shorter than one piece.
    """
    num = len(text) // _SAMPLE_CHARS
    step = max(1, num // _NUM_SAMPLES)
    return [text[_SAMPLE_CHARS * index : _SAMPLE_CHARS * (index + 1)] for index in range(0, num, step)]


def _own_text(request: GenerationRequest) -> str:
    """Return all text of the request, one piece after another."""
    texts = [text for message in request.messages for part in message.parts for text in _texts(part)]
    tool_texts = [text for tool in request.tools for text in (tool.name, tool.description)]
    return "\n".join(
        [*texts, *tool_texts, *(prompt for prompt in request.prompts if isinstance(prompt, str))]
    )


def _texts(part: Part) -> Sequence[str]:
    match part:
        case TextPart() | ThinkingPart() | ToolResultPart():
            return (part.text,)
        case ToolCallPart():
            return (part.name, part.arguments)
    return ()
