"""Counts of draft tokens, over all models. MLX thread only."""

from mlxctl.engine.speculation.policy.drafter import MAX_DRAFT_TOKENS
from mlxctl.ir.distribution import Distribution


class DraftCounts:
    """Accepted and rejected tokens by drafter.

    `accepted_per_draft` has one value per verified draft.
    """

    def __init__(self) -> None:
        self.tokens: dict[str, tuple[int, int]] = {}
        self.accepted_per_draft: dict[str, Distribution] = {}

    def open(self, drafter: str) -> None:
        """Report a drafter before its first draft."""
        self.tokens.setdefault(drafter, (0, 0))
        self.accepted_per_draft.setdefault(drafter, Distribution.of(range(MAX_DRAFT_TOKENS + 1)))

    def add(self, drafter: str, *, num_accepted: int, num_rejected: int) -> None:
        """Count a verified draft of an open drafter."""
        accepted, rejected = self.tokens[drafter]
        self.tokens[drafter] = accepted + num_accepted, rejected + num_rejected
        self.accepted_per_draft[drafter].add(num_accepted)
