"""Memory of a prefill pass, which bounds its size. Pure."""

from dataclasses import dataclass, replace
from math import isqrt

LEAST_TOKENS = 16
"""Tokens of the smallest pass."""

# Passes leave most of the memory beside the weights to caches, also where that is little.
_ROOM_SHARE = 1 / 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PassMemory:
    """Memory that a prefill pass needs while it computes a layer.

    `bytes_per_token` are the states of each token of the pass. `bytes_per_score` are the attention scores of
    a token for one token that it attends to, over all heads; 0 with a fused kernel. A layer attends to at
    most `window` tokens before the pass, None for all. Passes are sized to need at most `max_bytes`, but have
    at least 16 tokens; 0 does not bound them.
    """

    bytes_per_token: int = 0
    bytes_per_score: int = 0
    window: int | None = None
    max_bytes: int = 0

    def within(self, room_bytes: int) -> "PassMemory":
        """Return it with passes of a share of this memory."""
        most = max(1, int(room_bytes * _ROOM_SHARE))
        return replace(self, max_bytes=min(self.max_bytes or most, most))

    def num_bytes(self, num_tokens: int, *, end: int) -> int:
        """Return the memory of a pass over `num_tokens`, with padding.

        `end` is where it ends in the longest prompt.
        """
        attended = end if self.window is None else min(end, self.window + num_tokens)
        return num_tokens * (self.bytes_per_token + self.bytes_per_score * attended)

    def allows(self, num_tokens: int, *, end: int) -> bool:
        """Whether a pass is within the bound."""
        return (
            not self.max_bytes
            or num_tokens <= LEAST_TOKENS
            or self.num_bytes(num_tokens, end=end) <= self.max_bytes
        )

    def largest_pass(self, context: int, *, maximum: int) -> int:
        """Return the most tokens of one prompt after `context` tokens.

        At most `maximum`.
        """
        if not self.max_bytes or not (self.bytes_per_token or self.bytes_per_score):
            return maximum
        before = context if self.window is None else min(context, self.window)
        # n tokens need n * (states + scores * (before + n)) bytes.
        linear = self.bytes_per_token + self.bytes_per_score * before
        if self.bytes_per_score:
            root = isqrt(linear * linear + 4 * self.bytes_per_score * self.max_bytes)
            allowed = (root - linear) // (2 * self.bytes_per_score)
        else:
            allowed = self.max_bytes // linear
        return min(max(allowed, LEAST_TOKENS), maximum)


UNBOUNDED_PASSES = PassMemory()
