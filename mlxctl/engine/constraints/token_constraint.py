"""Token constraint of one row: grammar, thinking budget, repetition penalty.

Owned by the MLX thread.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from mlxctl.engine.constraints.matcher import GrammarMatcher
from mlxctl.engine.constraints.repetition import RepetitionPenalty
from mlxctl.engine.constraints.thinking_budget import UNLIMITED_POSITIONS, ThinkingBudget


class TokenConstraint:
    """Consumes the row's tokens and constrains the next one.

    Where it `needs_last_token`, the next token is sampled only after the last one was read back; elsewhere
    sampling runs one step ahead of the host as in any row.
    """

    def __init__(
        self,
        *,
        grammar: GrammarMatcher | None = None,
        thinking: ThinkingBudget | None = None,
        repetition: RepetitionPenalty | None = None,
    ) -> None:
        self._grammar = grammar
        self._thinking = thinking
        self._repetition = repetition
        self._num_consumed = 0

    @property
    def failure(self) -> str:
        """Error that ends the row, else ""."""
        return self._grammar.failure if self._grammar is not None else ""

    @property
    def has_grammar(self) -> bool:
        """Whether it masks tokens."""
        return self._grammar is not None

    def needs_last_token(self, position: int) -> bool:
        """Whether the token at `position`, from 0, depends on the last one."""
        if self._grammar is not None or self._repetition is not None:
            return True
        return self._thinking is not None and self._thinking.needs_last_token(position)

    def num_free_positions(self, position: int) -> int:
        """Return how many next tokens no budget or penalty can change.

        They start at `position`; a grammar may constrain them. All tokens before `position` but one in flight
        have been consumed, or none can change the answer.
        """
        if self._repetition is not None:
            return 0
        return UNLIMITED_POSITIONS if self._thinking is None else self._thinking.num_free_positions(position)

    def consume(self, output: Sequence[int], in_flight: Iterable[int] = ()) -> None:
        """Advance to the row's output; tokens consumed before are skipped."""
        # The tokens in flight may have been consumed before as well.
        num_early = max(self._num_consumed - len(output), 0)
        for token_id in (*output[self._num_consumed :], *islice(in_flight, num_early, None)):
            self._num_consumed += 1
            for part in (self._grammar, self._thinking, self._repetition):
                if part is not None:
                    part.consume(token_id)

    def fill_mask(self, words: "np.ndarray[Any, np.dtype[np.int32]]") -> None:
        """Set the bits of the tokens that the grammar allows next."""
        assert self._grammar is not None, "only a grammar masks"
        self._grammar.fill_mask(words)

    def mask_draft(self, draft: Sequence[int], words: "np.ndarray[Any, np.dtype[np.int32]]") -> int:
        """Return how many tokens of a draft the grammar allows.

        Sets `words` as GrammarMatcher does.
        """
        assert self._grammar is not None, "only a grammar masks"
        return self._grammar.mask_draft(draft, words)

    def tokens_after(self, num_sampled: int) -> Sequence[int]:
        """Return the tokens that the grammar leaves after the first `num_sampled` ones.

        They are known from the consumed tokens, of which at most one may be missing.
        """
        if self._grammar is None:
            return ()
        return self._grammar.forced_tokens()[num_sampled - self._num_consumed :]

    def forced_token(self, position: int) -> int | None:
        """Return the forced token at `position`, or None."""
        return None if self._thinking is None else self._thinking.forced_token(position)

    def penalties(self) -> Mapping[int, float]:
        """Return penalties in nats by token id."""
        return {} if self._repetition is None else self._repetition.penalties()
