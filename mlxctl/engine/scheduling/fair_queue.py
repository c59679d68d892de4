"""Fair queue: order in which prompts are prefilled.

Pure; owned by the MLX thread.
"""

from collections.abc import Iterable

from mlxctl.engine.scheduling.sequence import Sequence

# Aging against starvation: the priority value falls by one for each such time without a prefill.
AGING_SECONDS = 2.0
_MAX_KEYS = 4096


class FairQueue:
    """Orders prompts by priority, aging, fairness, remaining tokens and arrival.

    Lower priority numbers come first. The fairness of a `fairness_key` is the number of tokens computed for
    it. A key without active sequences starts at the lowest count of the active keys, so that idle time earns
    no credit.
    """

    def __init__(self) -> None:
        self._served: dict[str, float] = {}

    def enter(self, key: str, active_keys: Iterable[str]) -> None:
        """Register a new sequence of `key` beside the active keys."""
        floor = min((self._served.get(other, 0.0) for other in active_keys if other != key), default=0.0)
        if len(self._served) >= _MAX_KEYS and key not in self._served:
            self._served.pop(min(self._served, key=self._served.__getitem__))
        self._served[key] = max(self._served.get(key, 0.0), floor)

    def charge(self, sequence: Sequence, num_tokens: int) -> None:
        """Count tokens that were computed for the sequence."""
        self._served[sequence.fairness_key] = self._served.get(sequence.fairness_key, 0.0) + num_tokens

    def ranked(self, candidates: Iterable[Sequence], *, now: float) -> list[Sequence]:
        """Return the candidates, the next one first."""
        return sorted(candidates, key=lambda sequence: self._rank(sequence, now))

    def _rank(self, sequence: Sequence, now: float) -> tuple[float, float, int, float, int]:
        age = int((now - sequence.served_at) / AGING_SECONDS)
        return (
            sequence.priority - age,
            self._served.get(sequence.fairness_key, 0.0),
            sequence.num_uncomputed_tokens,
            sequence.arrived_at,
            sequence.sequence_id,
        )
