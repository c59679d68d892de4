"""Fair queue: order in which prompts are prefilled.

Pure; owned by the MLX thread.
"""

from collections.abc import Iterable, Mapping

from mlxctl.engine.scheduling.sequence import Sequence

_MAX_KEYS = 4096


class FairQueue:
    """Orders prompts by priority, aging, fairness, remaining tokens and arrival.

    Lower priority numbers come first. Aging against starvation: the value of a priority falls by one for each
    `aging_seconds` that its oldest prompt has waited. So all prompts of a priority age together, and a
    caller's backlog gains nothing over other callers. The fairness of a `fairness_key` is the number of
    tokens computed for it. A key without active sequences starts at the lowest count of the active keys, so
    that idle time earns no credit.
    """

    def __init__(self, *, aging_seconds: float) -> None:
        self.aging_seconds = aging_seconds
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
        """Return the candidates, the next one first.

        A sequence with a reserved place comes before all others.
        """
        sequences = list(candidates)
        ages: dict[int, int] = {}
        for sequence in sequences:
            ages[sequence.priority] = max(ages.get(sequence.priority, 0), self._age(sequence, now))
        return sorted(sequences, key=lambda sequence: self._rank(sequence, ages, now))

    def aged_priority(self, sequence: Sequence, *, now: float) -> int:
        """Return the priority value of a sequence after aging."""
        return sequence.priority - self._age(sequence, now)

    def _age(self, sequence: Sequence, now: float) -> int:
        return int((now - sequence.served_at) / self.aging_seconds)

    def _rank(self, sequence: Sequence, ages: Mapping[int, int], now: float) -> tuple[float, ...]:
        # After a time slice, a sequence waits after those that have not had a row yet.
        order = (
            (1, sequence.served_at)
            if sequence.was_preempted
            else (0, sequence.num_uncomputed_tokens, sequence.arrived_at)
        )
        return (
            not sequence.has_place,
            sequence.priority - ages[sequence.priority],
            self._served.get(sequence.fairness_key, 0.0),
            not sequence.resumes_first,
            # A prompt that has begun stays ahead of those that age while it is computed: in turns, all would
            # end last.
            -(ages[sequence.priority] if sequence.has_begun_prefill else self._age(sequence, now)),
            *order,
            sequence.sequence_id,
        )
