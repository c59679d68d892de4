"""Drafter: proposes next tokens, which the model verifies in one pass."""

from collections import abc
from dataclasses import dataclass
from typing import Protocol

from mlxctl.engine.scheduling.sequence import Sequence

MAX_DRAFT_TOKENS = 7
"""Longest draft. Metal computes attention of at most 8 positions with the kernel that decoding uses."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Proposed next tokens of one row; none without evidence.

    `evidence` is the drafter's class of confidence. Acceptance is measured for each class.
    """

    token_ids: tuple[int, ...] = ()
    evidence: int = 0


NO_DRAFT = Draft()


class Drafter(Protocol):
    """Proposes tokens. A wrong proposal costs time and never changes the output.

    A drafter that `needs_tokens` drafts only when no token of the rows is in flight, and is asked for no more
    tokens than will be used.
    """

    name: str
    needs_tokens: bool

    def draft(self, rows: abc.Sequence[Sequence], max_tokens: abc.Sequence[int]) -> list[Draft]:
        """Return a draft of at most `max_tokens` for each row.

        It continues the tokens that were read so far.
        """

    def drop(self, sequence_id: int) -> None:
        """Free the state of a row that ended."""
