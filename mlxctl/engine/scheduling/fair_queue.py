"""Fair queue: order in which prompts are prefilled.

Pure; owned by the MLX thread.
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum

from mlxctl.engine.scheduling.sequence import Sequence

_MAX_KEYS = 4096
# A policy, not a measurement: new messages of a conversation whose start is cached are mostly shorter.
_SMALL_TOKENS = 512
# Tokens of other prompts for each token of one that they overtake. Those of callers that were served
# more count three times.
_OVERTAKING_SHARE = 3
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
    remaining tokens: short prompts overtake long ones, which are not starved.

    Prompts that have begun are finished one after the other, the shortest first: in turns, all would end
    last. Only shorter ones overtake it: those of up to 512 tokens always, longer ones unless their
    caller was served more. It keeps a quarter of the prefill, beside callers that were served more a half.
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

    def overtake(self, others: Iterable[Sequence], sequence: Sequence, num_tokens: int) -> None:
        """Count tokens that were computed for a sequence before `others`."""
        served = self._served.get(sequence.fairness_key, 0.0)
        for other in (other for other in others if other is not sequence):
            is_behind = self._served.get(other.fairness_key, 0.0) < served
            other.standing.note_overtaking((_OVERTAKING_SHARE if is_behind else 1) * num_tokens)

    @staticmethod
    def let_overtake(sequence: Sequence, num_tokens: int) -> None:
        """Let others overtake a sequence anew.

        That is after the first turn of its pass over `num_tokens`.
        """
        sequence.standing.let_overtake(_OVERTAKING_SHARE * num_tokens)

    def ranked(self, candidates: Iterable[Sequence], *, now: float) -> list[Sequence]:
        """Return the candidates, the next one first.

        A sequence with a reserved place comes before all others.
        """
        classes: dict[int, list[Sequence]] = {}
        for sequence in candidates:
            classes.setdefault(sequence.priority, []).append(sequence)
        ranked = sorted(
            (rank, sequence.sequence_id, sequence)
            for sequences in classes.values()
            for rank, sequence in self._ranks(sequences, now)
        )
        return [sequence for _, _, sequence in ranked]

    def aged_priority(self, sequence: Sequence, *, now: float) -> int:
        """Return the priority value of a sequence after aging."""
        return sequence.priority - self._age(sequence, now)

    def _age(self, sequence: Sequence, now: float) -> int:
        return int((now - sequence.standing.served_at) / self.aging_seconds)

    def _ranks(self, sequences: list[Sequence], now: float) -> Iterator[tuple[tuple[float, ...], Sequence]]:
        """Yield the ranks of the candidates of one priority."""
        age = max(self._age(sequence, now) for sequence in sequences)
        begun = [sequence for sequence in sequences if sequence.has_begun_prefill]
        current = min(begun, key=lambda sequence: sequence.num_uncomputed_tokens, default=None)
        for sequence in sequences:
            wait = now - sequence.standing.served_at + _INITIAL_WAIT * self.aging_seconds
            yield (
                (
                    not sequence.standing.has_place,
                    sequence.priority - age,
                    _group(sequence, current),
                    self._served.get(sequence.fairness_key, 0.0),
                    not sequence.standing.resumes_first,
                    -wait / (min(sequence.num_uncomputed_tokens, _MAX_SIZE_TOKENS) + _PASS_TOKENS),
                    # After a time slice, a sequence waits after those that have not had a row yet.
                    sequence.was_preempted,
                    sequence.arrived_at,
                ),
                sequence,
            )


class _Group(IntEnum):
    """Order of prompts beside the current one, which is being finished."""

    OVERTAKEN = 0
    SMALL = 1
    CURRENT = 2
    LATER = 3


def _group(sequence: Sequence, current: Sequence | None) -> _Group:
    if sequence is current:
        return _Group.OVERTAKEN if sequence.standing.num_overtaking_tokens < 0 else _Group.CURRENT
    if current is None:
        return _Group.CURRENT
    if sequence.has_begun_prefill or sequence.num_uncomputed_tokens >= current.num_uncomputed_tokens:
        return _Group.LATER
    return _Group.SMALL if sequence.num_uncomputed_tokens <= _SMALL_TOKENS else _Group.CURRENT
