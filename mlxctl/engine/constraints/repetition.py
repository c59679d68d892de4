"""Which tokens would go on with a repetition, and what that costs them: the DRY penalty (p-e-w 2024).

Pure; works on token ids.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mlxctl.ir import Repetition

# Beyond this the penalty is as good as a ban, and the power would overflow.
_MAX_PENALTY = 1e6


class RepetitionPenalty:
    """The last tokens of a row, and for each place how many tokens up to it equal those at the end.

    That number grows from place to place, so a new token costs one pass over the window: where the token
    stands, it is one more than it was at the place before; elsewhere nothing.
    """

    def __init__(self, repetition: Repetition, *, breaker_ids: Iterable[int], prompt: Sequence[int]) -> None:
        self._repetition = repetition
        self._breakers = frozenset(breaker_ids)
        self._tokens: Any = np.full(repetition.num_last, -1, dtype=np.int64)
        self._lengths: Any = np.zeros(repetition.num_last, dtype=np.int64)
        for token_id in prompt[-repetition.num_last :]:
            self.consume(token_id)

    def consume(self, token_id: int) -> None:
        """Go on over a token."""
        grown = np.where(self._tokens == token_id, np.concatenate(([0], self._lengths[:-1])) + 1, 0)
        if token_id in self._breakers:
            grown[:] = 0
        self._tokens = np.append(self._tokens[1:], token_id)
        # The end itself is no earlier place; what it will be compared with has moved one to the left.
        self._lengths = np.append(grown[1:], 0)

    def penalties(self) -> Mapping[int, float]:
        """Return what each token loses that would make a repetition longer."""
        found: dict[int, float] = {}
        # A repetition may have begun before the window did; what counts is in it.
        lengths = np.minimum(self._lengths, np.arange(1, len(self._lengths) + 1))
        for place in np.nonzero(lengths >= self._repetition.allowed_length)[0]:
            following = int(self._tokens[place + 1])
            if following in self._breakers:
                continue
            excess = float(lengths[place] - self._repetition.allowed_length)
            penalty = self._repetition.multiplier * float(np.power(self._repetition.base, min(excess, 300.0)))
            found[following] = max(found.get(following, 0.0), min(penalty, _MAX_PENALTY))
        return found
