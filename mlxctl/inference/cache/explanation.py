"""Explanation of a prefix cache hit or miss. Pure.

Compares a prompt with the most similar earlier one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mlxctl.formats.adapters import ModelAdapter
from mlxctl.inference.cache.divergence import Divergence, MissReason, find_divergence
from mlxctl.inference.cache.recent_prompts import RecordedPrompt
from mlxctl.inference.cache.similarity import most_similar
from mlxctl.prefix_cache.policy import MIN_REUSE_TOKENS

Reason = Literal[
    "all_known", "continued", "first", "too_short", "cache_off", "not_kept", "no_checkpoint", "evicted",
    "expired", "cleared", "engine_restarted", "namespace_changed", "adapter_changed",
]  # fmt: skip

_SENTENCES: dict[str, str] = {
    "all_known": "the whole prompt was cached; the last token of a prompt is always computed",
    "continued": "all of request {other} was cached; only the tokens after it were computed",
    "first": "no earlier request in this server's memory is similar; those with another key or cache_salt, "
    "or with cache_mode off, do not count",
    "too_short": f"the prompt is too short: cached prefixes are reused from {MIN_REUSE_TOKENS} tokens on, "
    "without the last token of the prompt",
    "cache_off": "the cache is off for this request (cache_mode, or log-probabilities of the prompt), so its "
    "text is not kept and not compared",
    "not_kept": "request {other} was not stored: its cache_mode or ttl forbids it, or the cache has no room "
    "at all",
    "no_checkpoint": "more tokens match, but some layers of this model can only continue from a stored "
    "state, and none is there",
    "evicted": "what request {other} stored was evicted to make room; a larger --prefix-cache keeps more",
    "expired": "what request {other} stored has exceeded its ttl",
    "cleared": "what request {other} stored was cleared",
    "engine_restarted": "the engine was restarted after request {other}, and its memory was lost",
    "namespace_changed": "request {other} sent the same to {model}; a cache entry of one model cannot "
    "serve another",
    "adapter_changed": "request {other} began the same with other LoRA adapters or scales; cache entries of "
    "one adapter cannot serve another",
}
_DIVERGENCES: dict[str, str] = {
    "head_changed": "the beginning of the prompt changed",
    "volatile_header": "a header line changed that the agent rewrites for each call; it is removed unless "
    "--keep-agent-headers is given",
    "tool_order": "the same tools are offered in another order",
    "tools_changed": "the offered tools changed",
    "options_changed": "the request sets {part} differently",
    "message_inserted": "a message was inserted here",
    "message_removed": "an earlier message was removed here",
    "template_rewrite": "the chat template writes the same message differently than before",
    "bpe_seam": "the text is the same, but it was split into other tokens",
    "image_changed": "the image is a different one",
    "message_changed": "the {part} changed",
}
_NOTHING_CACHED = ", so nothing could be reused"
_CACHED_ELSEWHERE = "; {num:,} tokens were cached from requests that begin like this one"
_SAME_LATER = (
    "; {num:,} later {tokens} the same as before, but cached tokens are reusable only up to "
    "the first difference"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """How much of a prompt was cached, and why not more.

    `compared_with` is the number of the most similar request; `sentence` is the text for `reason`. A request
    that was not sent has the next number. `head_changed` is a changed message so early that nothing of that
    request could be reused.
    """

    number: int
    at: float
    model: str
    session_id: str | None
    num_prompt_tokens: int
    num_cached_tokens: int
    reason: Reason | MissReason
    sentence: str
    compared_with: int | None = None
    divergence: Divergence | None = None


def explain(
    recorded: RecordedPrompt, earlier: Sequence[RecordedPrompt], adapter: ModelAdapter
) -> Explanation:
    """Explain one prompt by earlier ones."""
    earlier = [
        other
        for other in earlier
        if not other.is_off and other.request.cache.namespace == recorded.request.cache.namespace
    ]
    comparable = [
        other
        for other in earlier
        if other.model == recorded.model and _adapters_digest(other) == _adapters_digest(recorded)
    ]
    other, num_common = most_similar(recorded, comparable)
    divergence = None
    reason: Reason | MissReason | None = _without_comparison(recorded)
    if (
        reason is None
        and 2 * num_common < len(recorded.prompt_ids)
        and (same := _find_same_request(recorded, earlier)) is not None
    ):
        other = same
        reason = "namespace_changed" if same.model != recorded.model else "adapter_changed"
    if reason is None and other is None:
        reason = "first"
    if reason is None and other is not None:
        divergence = _divergence(recorded, other, num_common, adapter)
        reason = _cache_loss(recorded, other, num_common) or (
            divergence.reason if divergence is not None else "continued"
        )
    assert reason is not None
    return Explanation(
        number=recorded.number,
        at=recorded.at,
        model=recorded.model,
        session_id=recorded.request.cache.session_id,
        num_prompt_tokens=recorded.num_prompt_tokens,
        num_cached_tokens=recorded.cache_usage.num_cached_tokens,
        reason=reason,
        sentence=_sentence(reason, other, divergence, recorded.cache_usage.num_cached_tokens),
        compared_with=other.number if other is not None else None,
        divergence=divergence,
    )


def _without_comparison(recorded: RecordedPrompt) -> Reason | None:
    if recorded.request.cache.mode == "off":
        return "cache_off"
    if len(recorded.prompt_ids) <= MIN_REUSE_TOKENS:
        return "too_short"
    return "all_known" if recorded.cache_usage.num_cached_tokens >= len(recorded.prompt_ids) - 1 else None


def _find_same_request(recorded: RecordedPrompt, earlier: Sequence[RecordedPrompt]) -> RecordedPrompt | None:
    """Return the newest prompt with these messages but another model or adapters.

    Its messages begin this one.
    """
    one = recorded.request
    for other in reversed(earlier):
        another = other.request
        is_elsewhere = other.model != recorded.model or _adapters_digest(other) != _adapters_digest(recorded)
        begins = one.messages[: len(another.messages)] == another.messages
        if is_elsewhere and begins and (another.prompts, another.tools) == (one.prompts, one.tools):
            return other
    return None


def _adapters_digest(recorded: RecordedPrompt) -> bytes:
    return recorded.request.cache.adapters_digest


def _cache_loss(recorded: RecordedPrompt, other: RecordedPrompt, num_common: int) -> Reason | None:
    """Return why fewer tokens were cached than the prompts share.

    The last token of an answer was never computed.
    """
    num_computed = min(num_common, len(other.token_ids) - 1, len(recorded.prompt_ids) - 1)
    if recorded.cache_usage.num_cached_tokens >= num_computed or num_computed < MIN_REUSE_TOKENS:
        return None
    if recorded.cache_usage.num_matched_tokens >= num_computed:
        return "no_checkpoint"
    match recorded.cache_usage.eviction_reason:
        case "evicted":
            return "evicted"
        case "expired":
            return "expired"
        case "cleared":
            return "cleared"
    if recorded.num_engine_restarts != other.num_engine_restarts:
        return "engine_restarted"
    return (
        "no_checkpoint"
        if recorded.cache_usage.num_matched_tokens
        >= recorded.cache_usage.num_cached_tokens + MIN_REUSE_TOKENS
        else "not_kept"
    )


def _divergence(
    recorded: RecordedPrompt, other: RecordedPrompt, num_common: int, adapter: ModelAdapter
) -> Divergence | None:
    """Return the first difference; None if one prompt continues the other."""
    if num_common >= min(len(recorded.prompt_ids), len(other.token_ids)):
        return None
    found = find_divergence(recorded, other, num_common, adapter)
    is_head = num_common < MIN_REUSE_TOKENS and found.reason == "message_changed"
    return replace(found, reason="head_changed") if is_head else found


def _sentence(
    reason: Reason | MissReason,
    other: RecordedPrompt | None,
    divergence: Divergence | None,
    num_cached_tokens: int,
) -> str:
    number, model = (f"#{other.number}", other.model) if other is not None else ("", "")
    part = divergence.part if divergence is not None and divergence.part is not None else "text"
    sentence = (_SENTENCES | _DIVERGENCES)[reason].format(other=number, model=model, part=part)
    if divergence is not None and reason == divergence.reason:
        num = divergence.num_same_later_tokens
        same = _SAME_LATER.format(num=num, tokens="token is" if num == 1 else "tokens are") if num else ""
        cached = ""
        if num_cached_tokens > divergence.position:
            cached = _CACHED_ELSEWHERE.format(num=num_cached_tokens)
        elif not num_cached_tokens and reason == "head_changed":
            cached = _NOTHING_CACHED
        return f"in {divergence.place}, {sentence}{cached}{same}"
    return sentence
