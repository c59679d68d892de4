"""Thinking budget: ends a row's thinking at its token limit.

Pure; works on token ids.
"""

from enum import Enum

from mlxctl.ir import ThinkingLimit

# The opening marker is expected within the first tokens, after whitespace at most.
_MAX_TOKENS_BEFORE = 4
UNLIMITED_POSITIONS = 1 << 30
"""Number of free positions of an output without a limit ahead."""


class _Phase(Enum):
    BEFORE = "before"
    INSIDE = "inside"
    CLOSING = "closing"
    OVER = "over"


class ThinkingBudget:
    """Follows one output and forces the closing tokens at the limit.

    Positions count output tokens from 0. A closing marker spelled with other tokens than usual is not
    recognized; the forced one then repeats it.
    """

    def __init__(self, limit: ThinkingLimit) -> None:
        self._limit = limit
        self._phase = _Phase.INSIDE if limit.is_open else _Phase.BEFORE
        self._token_ids: list[int] = []
        self._started_at = 0

    def needs_last_token(self, position: int) -> bool:
        """Whether the token at `position` depends on the one before it."""
        if self._phase is _Phase.INSIDE:
            return position >= self._started_at + self._limit.max_tokens
        return self._phase is _Phase.BEFORE

    def num_free_positions(self, position: int) -> int:
        """Return how many tokens from `position` on cannot be forced ones."""
        if self._phase is _Phase.INSIDE:
            return max(self._started_at + self._limit.max_tokens - position, 0)
        return UNLIMITED_POSITIONS if self._phase is _Phase.OVER else 0

    def consume(self, token_id: int) -> None:
        """Advance by one token."""
        self._token_ids.append(token_id)
        if self._phase is _Phase.INSIDE and self._ends_with(self._limit.closer_ids):
            self._phase = _Phase.OVER
        elif self._phase is _Phase.BEFORE:
            if self._ends_with(self._limit.opener_ids):
                self._phase, self._started_at = _Phase.INSIDE, len(self._token_ids)
            elif len(self._token_ids) >= len(self._limit.opener_ids) + _MAX_TOKENS_BEFORE:
                self._phase = _Phase.OVER

    def forced_token(self, position: int) -> int | None:
        """Return the forced token at `position`, or None.

        If `needs_last_token`, all tokens before it have been consumed.
        """
        if self._phase is _Phase.INSIDE and position >= self._started_at + self._limit.max_tokens:
            self._phase, self._started_at = _Phase.CLOSING, position
        if self._phase is not _Phase.CLOSING:
            return None
        index = position - self._started_at
        if index < len(self._limit.closing_ids):
            return self._limit.closing_ids[index]
        self._phase = _Phase.OVER
        return None

    def _ends_with(self, token_ids: tuple[int, ...]) -> bool:
        return bool(token_ids) and tuple(self._token_ids[-len(token_ids) :]) == token_ids
