"""The sequences of one model, each in the list of its state, and what the model costs.

Pure; owned by the engine's thread.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from mlxctl.engine.scheduling.grouping import affordable_padding, plan_joins
from mlxctl.engine.scheduling.prefill_pacer import PrefillPacer
from mlxctl.engine.scheduling.sequence import Sequence, SequenceState


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCosts:
    """What the scheduler has to know of a loaded model, all in bytes.

    `can_batch` is False for caches that cannot be merged.
    """

    weights_bytes: int
    kv_bytes_per_token: int
    can_batch: bool = True

    @property
    def affordable_padding_tokens(self) -> int:
        """Padding that a decode group may have."""
        if not self.can_batch:
            return -1
        return affordable_padding(
            weights_bytes=self.weights_bytes, kv_bytes_per_token=self.kv_bytes_per_token
        )


@dataclass(slots=True)
class ModelQueue:
    """The sequences of one model and their measure of time."""

    costs: ModelCosts
    pacer: PrefillPacer
    waiting: list[Sequence] = field(default_factory=list)
    prefilling: list[Sequence] = field(default_factory=list)
    groups: list[list[Sequence]] = field(default_factory=list)

    @property
    def num_decoding(self) -> int:
        return sum(map(len, self.groups))

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.prefilling or self.groups)

    def sequences(self) -> Iterable[Sequence]:
        yield from self.waiting
        yield from self.prefilling
        for group in self.groups:
            yield from group

    def remove(self, sequence: Sequence) -> None:
        match sequence.state:
            case SequenceState.WAITING:
                self.waiting.remove(sequence)
            case SequenceState.PREFILLING:
                self.prefilling.remove(sequence)
            case SequenceState.DECODING:
                for group in self.groups:
                    if sequence in group:
                        group.remove(sequence)
                self.groups = [group for group in self.groups if group]
            case SequenceState.FINISHED:
                return
        sequence.state = SequenceState.FINISHED

    def admit(self, sequence: Sequence) -> None:
        """Let a waiting sequence have a cache."""
        self.waiting.remove(sequence)
        self.prefilling.append(sequence)
        sequence.state = SequenceState.PREFILLING

    def start_decoding(self, sequences: Iterable[Sequence]) -> None:
        """Make a group of sequences whose prompts have been read."""
        group = list(sequences)
        for sequence in group:
            self.prefilling.remove(sequence)
            sequence.state = SequenceState.DECODING
        self.groups.append(group)

    def regroup(self) -> None:
        """Join the groups that cost less together."""
        lengths = [[row.length for row in group] for group in self.groups]
        plan = plan_joins(lengths, affordable_padding_tokens=self.costs.affordable_padding_tokens)
        if len(plan) < len(self.groups):
            self.groups = [[row for index in members for row in self.groups[index]] for members in plan]
