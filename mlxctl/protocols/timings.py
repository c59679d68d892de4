"""Times of an answer and progress of its prefill (llama.cpp)."""

import time

from msgspec import UNSET, Struct, UnsetType

from mlxctl.ir import PromptProgress, Usage


class Timings(Struct, kw_only=True):
    """Times in milliseconds and numbers of tokens.

    `cache_n` tokens came from the prefix cache. The model verified `draft_n` draft tokens and accepted
    `draft_n_accepted` of them; both are absent without speculative decoding.
    """

    cache_n: int
    prompt_n: int
    prompt_ms: float
    prompt_per_token_ms: float
    prompt_per_second: float
    predicted_n: int
    predicted_ms: float
    predicted_per_token_ms: float
    predicted_per_second: float
    draft_n: int | UnsetType = UNSET
    draft_n_accepted: int | UnsetType = UNSET


class PrefillProgress(Struct, kw_only=True):
    """Numbers of prompt tokens: all, cached, and processed so far."""

    total: int
    cache: int
    processed: int
    time_ms: int


def timings(usage: Usage, *, prefill_seconds: float, decode_seconds: float) -> Timings:
    """Return the timings of an answer, or of a part of it."""
    num_prefilled = usage.num_prompt_tokens - usage.num_cached_tokens
    num_predicted = usage.num_completion_tokens
    num_drafted = usage.num_accepted_draft_tokens + usage.num_rejected_draft_tokens
    return Timings(
        cache_n=usage.num_cached_tokens,
        prompt_n=num_prefilled,
        prompt_ms=prefill_seconds * 1000,
        prompt_per_token_ms=_ratio(prefill_seconds * 1000, num_prefilled),
        prompt_per_second=_ratio(num_prefilled, prefill_seconds),
        predicted_n=num_predicted,
        predicted_ms=decode_seconds * 1000,
        predicted_per_token_ms=_ratio(decode_seconds * 1000, num_predicted),
        predicted_per_second=_ratio(num_predicted, decode_seconds),
        draft_n=num_drafted or UNSET,
        draft_n_accepted=usage.num_accepted_draft_tokens if num_drafted else UNSET,
    )


class Stopwatch:
    """Measures a streamed answer, from its own creation."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._first: dict[int, float] = {}

    def first(self, number: int) -> bool:
        """Note a token of answer `number`; return whether it is the first."""
        is_first = number not in self._first
        self._first.setdefault(number, time.perf_counter())
        return is_first

    def timings(self, number: int, usage: Usage) -> Timings:
        """Return the timings of answer `number` so far."""
        now = time.perf_counter()
        first = self._first.get(number, now)
        return timings(usage, prefill_seconds=first - self._started, decode_seconds=now - first)

    def progress(self, event: PromptProgress) -> PrefillProgress:
        """Return the progress of a prefill."""
        return self._progress(event.num_processed, event.num_cached, event.num_prompt_tokens)

    def prefilled(self, usage: Usage) -> PrefillProgress:
        """Return the progress of a prefill that has ended."""
        return self._progress(usage.num_prompt_tokens, usage.num_cached_tokens, usage.num_prompt_tokens)

    def _progress(self, num_processed: int, num_cached: int, num_prompt_tokens: int) -> PrefillProgress:
        return PrefillProgress(
            total=num_prompt_tokens,
            cache=num_cached,
            processed=num_processed,
            time_ms=int((time.perf_counter() - self._started) * 1000),
        )


def _ratio(amount: float, per: float) -> float:
    return amount / per if per else 0.0
