"""Why so much of a prompt was known and no more: the request beside the earlier one that it has most in common with. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mlxctl.adapters import ModelAdapter
from mlxctl.inference.cache.divergence import Divergence, MissReason, find_divergence
from mlxctl.inference.cache.seen import SeenRequest
from mlxctl.prefix_cache.chunks import common_tokens

# What the cache takes for too short to be worth a copy.
_MIN_TOKENS = 16

Reason = Literal[
    "all_known", "continued", "first", "cache_off", "not_kept", "no_checkpoint", "evicted", "expired", "cleared",
    "engine_restarted", "namespace_changed",
]  # fmt: skip

_SENTENCES: dict[str, str] = {
    "all_known": "all of it was known; the last token of a prompt is always run",
    "continued": "everything of request {other} was known; only what came after it was read",
    "first": "nothing like it was asked before, as far as this server remembers",
    "cache_off": "it asked for cache_mode off",
    "not_kept": "request {other} was not kept: by its cache_mode, or because the cache has no room at all",
    "no_checkpoint": "more is known, but this model has layers that can only go on where their state was kept, and none was there",
    "evicted": "what request {other} had left was evicted to make room; a larger --prefix-cache keeps more",
    "expired": "what request {other} had left has outlived its ttl",
    "cleared": "what request {other} had left was cleared",
    "engine_restarted": "the engine was started again since request {other}, and its memory is gone",
    "namespace_changed": "request {other} asked the same of {model}; what one model has computed is of no use to another",
}
_DIVERGENCES: dict[str, str] = {
    "volatile_header": "a line that the agent changes with every call; it is left out unless --keep-agent-headers is given",
    "tool_order": "the same tools were offered in another order",
    "tools_changed": "other tools were offered",
    "template_rewrite": "the chat template writes the same message in another way than before",
    "bpe_seam": "the text is the same, but it was cut into other tokens",
    "image_changed": "the image is another one",
    "message_changed": "the text is another one from here on",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What was known of one prompt, and why not more. `compared_with` is the number of the request that came closest.

    `sentence` says for a person what `reason` says for a program. A request that was not made has the next number.
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


def explain(seen: SeenRequest, earlier: Sequence[SeenRequest], adapter: ModelAdapter) -> Explanation:
    """Explain one request by those before it."""
    earlier = [other for other in earlier if other.request.cache.namespace == seen.request.cache.namespace]
    same_model = [other for other in earlier if other.model == seen.model]
    other, num_common = _closest(seen, same_model)
    divergence = None
    reason: Reason | MissReason | None = _without_comparison(seen)
    if reason is None and other is None:
        other = _twin(seen, earlier)
        reason = "namespace_changed" if other is not None else "first"
    if reason is None and other is not None:
        divergence = _divergence(seen, other, num_common, adapter)
        reason = _loss(seen, other, num_common) or (divergence.reason if divergence is not None else "continued")
    assert reason is not None
    return Explanation(
        number=seen.number,
        at=seen.at,
        model=seen.model,
        session_id=seen.request.session_id,
        num_prompt_tokens=len(seen.prompt_ids),
        num_cached_tokens=seen.num_cached,
        reason=reason,
        sentence=_sentence(reason, other, divergence),
        compared_with=other.number if other is not None else None,
        divergence=divergence,
    )


def _without_comparison(seen: SeenRequest) -> Reason | None:
    if seen.request.cache.mode == "off":
        return "cache_off"
    return "all_known" if seen.num_cached >= len(seen.prompt_ids) - 1 else None


def _closest(seen: SeenRequest, others: Sequence[SeenRequest]) -> tuple[SeenRequest | None, int]:
    """The request with the longest common beginning, the newest of equals; one of the same session wins over others."""
    # What differs in nothing but its images is close, however early these come.
    alike = [other for other in others if common_tokens(seen.prompt_ids, other.token_ids) >= _MIN_TOKENS]
    ranked = [(common_tokens(seen.prompt_ids, other.token_ids, seen.salts, other.salts), other) for other in alike]
    session = seen.request.session_id
    own = [pair for pair in ranked if session is not None and pair[1].request.session_id == session]
    best = max(own or ranked, key=lambda pair: (pair[0], pair[1].number), default=None)
    return (None, 0) if best is None else (best[1], best[0])


def _twin(seen: SeenRequest, earlier: Sequence[SeenRequest]) -> SeenRequest | None:
    """A request that asked another model in the same words."""
    for other in reversed(earlier):
        asked, said = seen.request, other.request
        if other.model != seen.model and (said.messages, said.prompts, said.tools) == (asked.messages, asked.prompts, asked.tools):
            return other
    return None


def _loss(seen: SeenRequest, other: SeenRequest, num_common: int) -> Reason | None:
    """Why less was taken over than the two have in common; the last token of an answer was never computed."""
    num_computed = min(num_common, len(other.token_ids) - 1, len(seen.prompt_ids) - 1)
    if seen.num_cached >= num_computed or num_computed < _MIN_TOKENS:
        return None
    if seen.num_known >= num_computed:
        return "no_checkpoint"
    match seen.gone:
        case "evicted":
            return "evicted"
        case "expired":
            return "expired"
        case "cleared":
            return "cleared"
    if seen.engine_life != other.engine_life:
        return "engine_restarted"
    return "no_checkpoint" if seen.num_known >= seen.num_cached + _MIN_TOKENS else "not_kept"


def _divergence(seen: SeenRequest, other: SeenRequest, num_common: int, adapter: ModelAdapter) -> Divergence | None:
    """Where they part; nowhere if one goes on where the other ends."""
    if num_common >= min(len(seen.prompt_ids), len(other.token_ids)):
        return None
    return find_divergence(seen, other, num_common, adapter)


def _sentence(reason: Reason | MissReason, other: SeenRequest | None, divergence: Divergence | None) -> str:
    number, model = (f"#{other.number}", other.model) if other is not None else ("", "")
    sentence = (_SENTENCES | _DIVERGENCES)[reason].format(other=number, model=model)
    if divergence is not None and reason == divergence.reason:
        return f"in {divergence.place}, {sentence}"
    return sentence
