"""How long what a request used and left is kept. Pure value."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """Chunks that begin among the first `num_long_ttl_tokens` are kept for `long_ttl_seconds`, all others for
    `seconds`.

    That is counted from the last use, and None is for good. What others keep for longer stays.
    """

    seconds: float | None = None
    num_long_ttl_tokens: int = 0
    long_ttl_seconds: float | None = None

    def chunk_ttl(self, start: int) -> float | None:
        """Return how long a chunk that begins at position `start` is kept."""
        return self.long_ttl_seconds if start < self.num_long_ttl_tokens else self.seconds


UNLIMITED_LIFETIME = Lifetime()
