"""Repetition penalty of the DRY sampler (p-e-w 2024).

Pure; works on token ids.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mlxctl.ir import Repetition

# Beyond this a penalty equals a ban, and the power could overflow.
_MAX_PENALTY = 1e6


class RepetitionPenalty:
    """Last tokens of a row, with the repetition length at each.

    The length at an index is the number of tokens up to it that equal those at the end. A new token needs one
    pass over the window: where it occurs, the length is that of the index before plus one, elsewhere 0.
    """

    def __init__(self, repetition: Repetition, *, breaker_ids: Iterable[int], prompt: Sequence[int]) -> None:
        self._repetition = repetition
        self._breakers = frozenset(breaker_ids)
        self._tokens: Any = np.full(repetition.num_last, -1, dtype=np.int64)
        self._lengths: Any = np.zeros(repetition.num_last, dtype=np.int64)
        for token_id in prompt[-repetition.num_last :]:
            self.consume(token_id)

    def consume(self, token_id: int) -> None:
        """Advance by one token."""
        extended = np.where(self._tokens == token_id, np.concatenate(([0], self._lengths[:-1])) + 1, 0)
        if token_id in self._breakers:
            extended[:] = 0
        self._tokens = np.append(self._tokens[1:], token_id)
        # The window moves by one token; the last token is no repetition of itself.
        self._lengths = np.append(extended[1:], 0)

    def penalties(self) -> Mapping[int, float]:
        """Return the penalty of each token that would extend a repetition."""
        penalties: dict[int, float] = {}
        # Only the part of a repetition inside the window counts.
        lengths = np.minimum(self._lengths, np.arange(1, len(self._lengths) + 1))
        for index in np.nonzero(lengths >= self._repetition.allowed_length)[0]:
            following = int(self._tokens[index + 1])
            if following in self._breakers:
                continue
            excess = float(lengths[index] - self._repetition.allowed_length)
            penalty = self._repetition.multiplier * float(np.power(self._repetition.base, min(excess, 300.0)))
            penalties[following] = max(penalties.get(following, 0.0), min(penalty, _MAX_PENALTY))
        return penalties
