"""Context that fits into memory, kind of cache, and stability in batches."""

from mlxctl.ir import GenerationRequest, ModelCapabilities, ProbeVerdict, ThinkingOptions, text_message
from mlxctl.ir.conversation_size import ConversationSize
from mlxctl.probe.interview import GREEDY, Interview
from mlxctl.probe.questions import BATCH_QUESTIONS
from mlxctl.state.stores import Finding

_BATCH_TOKENS = 48
# Shorter answers hardly share a decode step with the other one.
_MIN_BATCH_TOKENS = 4
_CACHE_KINDS = {
    "plain": "every layer keeps every token",
    "sliding": "some layers keep a window only",
    "hybrid": "some layers keep a state that cannot be trimmed",
}


async def check_limits(interview: Interview, known: ModelCapabilities) -> tuple[Finding, ...]:  # noqa: ARG001
    """Return findings from the engine's measurements of the loaded model."""
    return check_cache(interview.loaded.cache_kind, interview.loaded.cache_limits), check_context(
        context_length=interview.facts.context_length,
        conversation=interview.loaded.conversation,
        weights_bytes=interview.loaded.weights_bytes,
        memory_limit_bytes=interview.memory_limit_bytes,
    )


def check_cache(kind: str, limits: str | None) -> Finding:
    """Return the finding on the cache and its limits."""
    can_be_cut = kind == "plain"
    return Finding(
        question="trimmable_cache",
        verdict="yes" if can_be_cut else "no",
        reason=_CACHE_KINDS[kind] + (f"; {limits}" if limits else ""),
        value={"kind": kind},
    )


def check_context(
    *,
    context_length: int,
    conversation: ConversationSize,
    weights_bytes: int,
    memory_limit_bytes: int,
) -> Finding:
    """Return the longest conversation that fits into memory beside the weights.

    In tokens, at most the model's context length.
    """
    free_bytes = max(memory_limit_bytes - weights_bytes, 0)
    tokens = min(context_length, conversation.tokens_within(free_bytes))
    binding = (
        "the model's context length"
        if tokens == context_length
        else f"{free_bytes / 1e9:.2f} GB of memory beside the weights"
    )
    return Finding(
        question="practical_context",
        verdict="yes" if tokens else "no",
        reason=f"{tokens:,} tokens, calculated, limited by {binding}; {conversation.bytes_per_token:,} "
        "bytes of cache per token, measured",
        value={
            "tokens": tokens,
            "context_length": context_length,
            "kv_bytes_per_token": conversation.bytes_per_token,
            "kv_windows": [list(window) for window in conversation.windows],
            "work_bytes_per_token": conversation.work_bytes_per_token,
            "fixed_bytes": conversation.fixed_bytes,
            "weights_bytes": weights_bytes,
            "memory_limit_bytes": memory_limit_bytes,
        },
    )


async def check_batch(interview: Interview, known: ModelCapabilities) -> tuple[Finding, ...]:
    """Compare greedy tokens of two answers, alone and in one batch."""
    adapter = interview.adapter(known)
    requests = [
        GenerationRequest(
            model=interview.model,
            messages=(text_message("user", question),),
            sampling=GREEDY,
            thinking=ThinkingOptions(enabled=False),
            max_tokens=_BATCH_TOKENS,
        )
        for question in BATCH_QUESTIONS
    ]
    alone = [await interview.ask(adapter, request) for request in requests]
    together = await interview.ask_together(adapter, requests)
    is_same = all(one.token_ids == other.token_ids for one, other in zip(alone, together, strict=True))
    num_tokens = sum(len(transcript.token_ids) for transcript in together)
    shortest = min(len(transcript.token_ids) for transcript in (*alone, *together))
    verdict: ProbeVerdict = "yes" if is_same else "no"
    reason = f"{num_tokens} tokens, greedy, {'the same' if is_same else 'not the same'} alone and together"
    if is_same and shortest < _MIN_BATCH_TOKENS:
        verdict, reason = (
            "unknown",
            f"an answer of {shortest} tokens is too short to compare; {_MIN_BATCH_TOKENS} are needed",
        )
    return (
        Finding(
            question="batch_safe",
            verdict=verdict,
            reason=reason,
            exchanges=tuple(transcript.evidence() for transcript in (*alone, *together)),
        ),
    )
