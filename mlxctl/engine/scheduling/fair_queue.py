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
    tokens computed for it. A key without active sequences starts at least at the lowest count of the active
    keys, so that idle time earns no credit; without active keys all counts start anew, so that service which
    no other key wanted is no debt. A prompt that has begun is finished before a longer one begins: in turns,
    all would end last.
    """

    def __init__(self, *, aging_seconds: float) -> None:
        self.aging_seconds = aging_seconds
        self._served: dict[str, float] = {}

    def enter(self, key: str, active_keys: Iterable[str]) -> None:
        """Register a new sequence of `key` beside the active keys."""
        active = set(active_keys)
        if not active:
            self._served.clear()
        floor = min((self._served.get(other, 0.0) for other in active - {key}), default=0.0)
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
        ordered = sorted(sequences, key=lambda sequence: self._rank(sequence, ages, now))
        return _begun_first(ordered)

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
            -self._age(sequence, now),
            *order,
            sequence.sequence_id,
        )


def _begun_first(ordered: list[Sequence]) -> list[Sequence]:
    """Move begun prompts before the first one, if they are no longer and of its priority."""
    if not ordered or ordered[0].has_begun_prefill:
        return ordered
    first = ordered[0]
    begun = [
        sequence
        for sequence in ordered
        if sequence.has_begun_prefill
        and (sequence.has_place, sequence.priority) == (first.has_place, first.priority)
        and sequence.num_uncomputed_tokens <= first.num_uncomputed_tokens
    ]
    return begun + [sequence for sequence in ordered if sequence not in begun] if begun else ordered
