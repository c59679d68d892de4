"""How many prompt tokens one step may compute: time slices, measured, not guessed. Pure; owned by the engine's thread."""

from dataclasses import dataclass

# A prefill slice alone is at most this many decode steps long: a short request that arrives behind a long prompt waits one slice,
# and its idle latency is a few steps.
_ALONE_STEPS = 8
# With rows decoding, a slice is at most this many decode steps long: the gap between two tokens is one step plus one slice.
_CONTENDED_STEPS = 1.5
# Below this a slice costs hardly less, so a prompt would be read slowly and nobody be served sooner.
_MIN_TOKENS = 4
_SMOOTHING = 0.2
# How far the next slice follows what the last one asks for (as an exponent): one that was disturbed says little, and the longest
# gaps stay near the target.
_CONTENDED_TRUST = 0.3


@dataclass(slots=True)
class _Quota:
    """A number of tokens that is steered so that computing it takes the target time."""

    tokens: float
    trust: float = 1.0

    def correct(self, *, num_tokens: int, seconds: float, target_seconds: float, maximum: int) -> None:
        # A short last chunk says little about a full one.
        if num_tokens * 2 < self.tokens or seconds <= 0:
            return
        wanted = self.tokens * (num_tokens / self.tokens * target_seconds / seconds) ** self.trust
        self.tokens = max(_MIN_TOKENS, min(wanted, self.tokens * 2, maximum))


class PrefillPacer:
    """Sizes prefill chunks so that they fit their slice: long when nothing decodes, short when rows wait for their next token.

    `slice_seconds` bounds a slice in any case, `max_tokens` bounds a chunk.
    """

    def __init__(self, *, slice_seconds: float, max_tokens: int) -> None:
        self._slice_seconds = slice_seconds
        self._max_tokens = max_tokens
        self._decode_seconds: float | None = None
        self._last_decode_seconds = 0.0
        self._alone = _Quota(min(128, max_tokens))
        self._contended = _Quota(min(16, max_tokens), trust=_CONTENDED_TRUST)

    @property
    def decode_seconds(self) -> float | None:
        """Smoothed duration of one pure decode step, None before the first."""
        return self._decode_seconds

    def chunk_tokens(self, *, contended: bool) -> int:
        """Return how many tokens the next chunk may have."""
        return int((self._contended if contended else self._alone).tokens)

    def observe_decode(self, seconds: float, *, alone: bool) -> None:
        """Take the duration of a decode step; one between prefill chunks says nothing about how long a step takes by itself."""
        self._last_decode_seconds = seconds
        if not alone:
            return
        previous = seconds if self._decode_seconds is None else self._decode_seconds
        # NOTE: an outlier (a compile, a swap) must not stretch every slice after it.
        self._decode_seconds = previous + _SMOOTHING * (min(seconds, 4 * previous) - previous)

    def observe_prefill(self, num_tokens: int, seconds: float, *, contended: bool) -> None:
        """Take the duration of a chunk. Where rows decode, what counts is how much longer chunk and step take than a step alone.

        How the two share the time between them differs: on Metal a step runs on while the chunk is prepared, on a CPU it does not.
        """
        if contended and self._decode_seconds is not None:
            seconds = max(seconds + self._last_decode_seconds - self._decode_seconds, seconds / 8)
        quota = self._contended if contended else self._alone
        quota.correct(
            num_tokens=num_tokens,
            seconds=seconds,
            target_seconds=self.target_seconds(contended=contended),
            maximum=self._max_tokens,
        )

    def target_seconds(self, *, contended: bool) -> float:
        """Return how long a slice should take."""
        if self._decode_seconds is None:
            return self._slice_seconds / 4
        return min(self._slice_seconds, self._decode_seconds * (_CONTENDED_STEPS if contended else _ALONE_STEPS))
