"""Policy values of the prefix cache: reuse threshold, share of states, lifetimes.

Pure.
"""

from dataclasses import dataclass
from typing import Literal

MIN_REUSE_TOKENS = 16
"""Shortest prefix that is restored or shared: below this, prefill costs less than a copy."""

MAX_STATE_SHARE = 0.5
"""Part of the byte budget that layer states may take: one state can be as large as the keys and values of
thousands of tokens."""

MAX_PINNED_SHARE = 0.5
"""Part of the byte budget that pinned prefixes may take, so that others are cached as well."""

EvictionReason = Literal["evicted", "expired", "cleared"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """Time to live of the chunks that one request reads or writes.

    Chunks that start within the first `num_long_ttl_tokens` live for `long_ttl_seconds`, all others for
    `seconds`, both counted from the last use; None is unlimited. A chunk gets the longest lifetime of all
    requests that used it.
    """

    seconds: float | None = None
    num_long_ttl_tokens: int = 0
    long_ttl_seconds: float | None = None

    @property
    def is_zero(self) -> bool:
        """Whether nothing is to be stored."""
        return self.seconds == 0 and not self.num_long_ttl_tokens

    def chunk_ttl(self, start: int) -> float | None:
        """Return the time to live of a chunk by its start."""
        return self.long_ttl_seconds if start < self.num_long_ttl_tokens else self.seconds


UNLIMITED_LIFETIME = Lifetime()
