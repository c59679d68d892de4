"""Who is next: the order in which waiting prompts get their slices. Pure; owned by the engine's thread."""

from collections.abc import Iterable

from mlxctl.engine.scheduling.sequence import Sequence

# A sequence that has not been served for this long counts as one priority higher, so that nothing starves.
AGING_SECONDS = 2.0
_MAX_KEYS = 4096


class FairQueue:
    """Chooses by priority with aging, then by the key that was served least, then by the shortest rest, then
    by arrival.

    Service is counted in tokens per `fairness_key`. A key that comes (back) starts at the least-served active
    key's count, so that idling earns no credit.
    """

    def __init__(self) -> None:
        self._served: dict[str, float] = {}

    def enter(self, key: str, active_keys: Iterable[str]) -> None:
        """Take note that `key` has something to do while `active_keys` are busy."""
        floor = min((self._served.get(other, 0.0) for other in active_keys if other != key), default=0.0)
        if len(self._served) >= _MAX_KEYS and key not in self._served:
            self._served.pop(min(self._served, key=self._served.__getitem__))
        self._served[key] = max(self._served.get(key, 0.0), floor)

    def charge(self, sequence: Sequence, num_tokens: int) -> None:
        """Count tokens that were computed for the sequence."""
        self._served[sequence.fairness_key] = self._served.get(sequence.fairness_key, 0.0) + num_tokens

    def ranked(self, candidates: Iterable[Sequence], *, now: float) -> list[Sequence]:
        """Return the candidates in the order of their turns."""
        return sorted(candidates, key=lambda sequence: self._rank(sequence, now))

    def _rank(self, sequence: Sequence, now: float) -> tuple[float, float, int, float, int]:
        age = int((now - sequence.served_at) / AGING_SECONDS)
        return (
            -(sequence.priority + age),
            self._served.get(sequence.fairness_key, 0.0),
            sequence.num_uncomputed_tokens,
            sequence.arrived_at,
            sequence.sequence_id,
        )
