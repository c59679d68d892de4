"""Fair queue: order in which prompts are prefilled.

Pure; owned by the MLX thread.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf

from mlxctl.engine.scheduling.sequence import Sequence

_MAX_KEYS = 4096
# Response ratio: of longer prompts, only the wait counts.
_MAX_SIZE_TOKENS = 4096
# The fixed cost of a pass, in tokens.
_PASS_TOKENS = 64
# Wait that all prompts start with, as a share of `aging_seconds`: among new ones, the shortest goes first.
_INITIAL_WAIT = 0.125


class FairQueue:
    """Orders prompts by priority, fairness and response ratio.

    Lower priority numbers come first. Aging against starvation: the value of a priority falls by one for each
    `aging_seconds` that its oldest prompt has waited. So all prompts of a priority age together, and a
    caller's backlog gains nothing over other callers. The fairness of a `fairness_key` is the number of
    tokens computed for it. A key without active sequences starts at least at the lowest count of the active
    keys, so that idle time earns no credit; without active keys all counts start anew, so that service which
    no other key wanted is no debt.

    The response ratio (Brinch Hansen, 1971) is the time since a prompt was last served, relative to its
    remaining tokens: short prompts overtake long ones, which are not starved. A prompt that has begun gets at
    least a quarter of the prefill, and is finished before one that is not shorter begins: in turns, all would
    end last.
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
        classes: dict[int, PriorityClass] = {}
        for sequence in sequences:
            classes.setdefault(sequence.priority, PriorityClass()).add(sequence, age=self._age(sequence, now))
        return sorted(sequences, key=lambda sequence: self._rank(sequence, classes, now))

    def aged_priority(self, sequence: Sequence, *, now: float) -> int:
        """Return the priority value of a sequence after aging."""
        return sequence.priority - self._age(sequence, now)

    def _age(self, sequence: Sequence, now: float) -> int:
        return int((now - sequence.served_at) / self.aging_seconds)

    def _rank(
        self, sequence: Sequence, classes: Mapping[int, "PriorityClass"], now: float
    ) -> tuple[float, ...]:
        of_priority = classes[sequence.priority]
        wait = now - sequence.served_at + _INITIAL_WAIT * self.aging_seconds
        return (
            not sequence.has_place,
            sequence.priority - of_priority.age,
            not sequence.was_overtaken,
            not sequence.has_begun_prefill
            and sequence.num_uncomputed_tokens >= of_priority.fewest_begun_tokens,
            self._served.get(sequence.fairness_key, 0.0),
            not sequence.resumes_first,
            -wait / (min(sequence.num_uncomputed_tokens, _MAX_SIZE_TOKENS) + _PASS_TOKENS),
            # After a time slice, a sequence waits after those that have not had a row yet.
            sequence.was_preempted,
            sequence.arrived_at,
            sequence.sequence_id,
        )


@dataclass(slots=True)
class PriorityClass:
    """Highest age, and fewest remaining tokens of a begun prompt, by priority."""

    age: int = 0
    fewest_begun_tokens: float = inf

    def add(self, sequence: Sequence, *, age: int) -> None:
        """Add a candidate."""
        self.age = max(self.age, age)
        if sequence.has_begun_prefill:
            self.fewest_begun_tokens = min(self.fewest_begun_tokens, sequence.num_uncomputed_tokens)
