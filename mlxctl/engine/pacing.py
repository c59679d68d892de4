"""How many prompt tokens one step may compute: time slices, measured, not guessed. Pure; owned by the engine's thread."""

from collections import deque
from dataclasses import dataclass

# A prefill slice alone is at most this many quick decode steps long: a short request that arrives behind a long prompt waits one
# slice, and its idle latency is a few steps.
_ALONE_STEPS = 5
# With rows decoding, a slice is at most this many decode steps long: the gap between two tokens is one step plus one slice, and
# now and then a slice takes twice what was meant.
_CONTENDED_STEPS = 1.0
# Below this a slice costs hardly less, so a prompt would be read slowly and nobody be served sooner.
_MIN_TOKENS = 4
_SMOOTHING = 0.2
# The duration of a quick step, with few rows and short ones, rises so slowly: what a short request waits for stays short.
_RISE = 0.02
# Where rows decode, a slice that reads what is left of several prompts may take so many steps: it spares each of these prompts a
# slice of its own, and the gap between two tokens stays at four steps.
_TOGETHER_FACTOR = 3
_MIN_TOGETHER_TOKENS = 32
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
        self._quick_seconds = 0.0
        self._last_steps: deque[float] = deque([0.0], maxlen=2)
        self._together_seconds_per_token: float | None = None
        self._alone = _Quota(min(128, max_tokens))
        self._contended = _Quota(min(16, max_tokens), trust=_CONTENDED_TRUST)

    @property
    def decode_seconds(self) -> float | None:
        """Smoothed duration of one pure decode step, None before the first."""
        return self._decode_seconds

    def chunk_tokens(self, *, contended: bool) -> int:
        """Return how many tokens the next chunk may have."""
        return int((self._contended if contended else self._alone).tokens)

    def together_tokens(self, *, contended: bool) -> int:
        """Return how many tokens, with padding, the next slice may have that reads what is left of several prompts."""
        if contended:
            # Joining rows makes one step longer, which says nothing about the next.
            target = min(self._slice_seconds, _TOGETHER_FACTOR * min(self._last_steps))
            rate = self._together_seconds_per_token
            wanted = int(target / rate) if rate else 2 * _MIN_TOGETHER_TOKENS
        else:
            # Whoever is read apart is joined later, and then everything that all of them hold is copied once more.
            wanted = int(self._alone.tokens * self._slice_seconds / self.target_seconds(contended=False))
        return min(max(wanted, _MIN_TOGETHER_TOKENS), self._max_tokens)

    def observe_together(self, num_tokens: int, seconds: float) -> None:
        """Take the duration of a slice that read what was left of several prompts, `num_tokens` with padding."""
        rate = seconds / num_tokens
        known = self._together_seconds_per_token or rate
        self._together_seconds_per_token = known + _SMOOTHING * (min(rate, 4 * known) - known)

    def observe_decode(self, seconds: float, *, alone: bool) -> None:
        """Take how long a decode step kept the thread, with starting the next: where starting blocks, most of it is there.

        A step between prefill chunks says nothing about how long one takes by itself.
        """
        self._last_steps.append(seconds)
        if not alone:
            return
        previous = seconds if self._decode_seconds is None else self._decode_seconds
        # NOTE: an outlier (a compile, a swap) must not stretch every slice after it.
        self._decode_seconds = previous + _SMOOTHING * (min(seconds, 4 * previous) - previous)
        quick = self._quick_seconds or seconds
        self._quick_seconds = quick + (_SMOOTHING if seconds < quick else _RISE) * (min(seconds, 4 * quick) - quick)

    def observe_prefill(self, num_tokens: int, seconds: float, *, contended: bool) -> None:
        """Take the duration of a chunk. Where rows decode, what counts is how much longer chunk and step take than a step alone.

        How the two share the time between them differs: on Metal a step runs on while the chunk is prepared, on a CPU it does not.
        """
        if contended and self._decode_seconds is not None:
            seconds = max(seconds + self._last_steps[-1] - self._decode_seconds, seconds / 8)
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
        steps_seconds = _CONTENDED_STEPS * self._decode_seconds if contended else _ALONE_STEPS * self._quick_seconds
        return min(self._slice_seconds, steps_seconds)
