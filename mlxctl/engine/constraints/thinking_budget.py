"""Whether a row thinks, and for how long it still may. Pure; works on token ids."""

from enum import Enum

from mlxctl.ir import ThinkingLimit

# A model that is going to think begins with it, perhaps after a blank or two.
_MAX_TOKENS_BEFORE = 4


class _Phase(Enum):
    BEFORE = "before"
    INSIDE = "inside"
    CLOSING = "closing"
    OVER = "over"


class ThinkingBudget:
    """Follows one answer and ends its thinking at the limit: from then on `forced_token` says what comes,
    until it is closed.

    Positions count generated tokens from 0. A closing marker that the model writes in other tokens than usual
    is not noticed; the one that is put in then says nothing new.
    """

    def __init__(self, limit: ThinkingLimit) -> None:
        self._limit = limit
        self._phase = _Phase.INSIDE if limit.is_open else _Phase.BEFORE
        self._seen: list[int] = []
        self._begins_at = 0

    def needs_last_token(self, position: int) -> bool:
        """Whether the token at this position can only be known when all before it are."""
        if self._phase is _Phase.INSIDE:
            return position >= self._begins_at + self._limit.max_tokens
        return self._phase is _Phase.BEFORE

    def consume(self, token_id: int) -> None:
        """Go on over a token."""
        self._seen.append(token_id)
        if self._phase is _Phase.INSIDE and self._ends_with(self._limit.closer_ids):
            self._phase = _Phase.OVER
        elif self._phase is _Phase.BEFORE:
            if self._ends_with(self._limit.opener_ids):
                self._phase, self._begins_at = _Phase.INSIDE, len(self._seen)
            elif len(self._seen) >= len(self._limit.opener_ids) + _MAX_TOKENS_BEFORE:
                self._phase = _Phase.OVER

    def forced_token(self, position: int) -> int | None:
        """Return what has to come at this position, or None when that is free.

        All before it was taken, if it `needs_last_token`.
        """
        if self._phase is _Phase.INSIDE and position >= self._begins_at + self._limit.max_tokens:
            self._phase, self._begins_at = _Phase.CLOSING, position
        if self._phase is not _Phase.CLOSING:
            return None
        place = position - self._begins_at
        if place < len(self._limit.closing_ids):
            return self._limit.closing_ids[place]
        self._phase = _Phase.OVER
        return None

    def _ends_with(self, token_ids: tuple[int, ...]) -> bool:
        return bool(token_ids) and tuple(self._seen[-len(token_ids) :]) == token_ids
