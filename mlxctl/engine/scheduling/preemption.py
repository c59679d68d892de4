"""Preemption: which row gives its place to a waiting sequence.

Pure; owned by the MLX thread.

- A waiting sequence of high priority preempts the decoding row with the highest priority value, if that is
  higher than its own. A row that waited long for its place has a lower value: aging counts.
- With time slices, a row that is not of high priority and has had its slice yields to a waiting sequence
  whose value is not higher.
- A row younger than MIN_SLICE_TOKENS, or one that is about to end, keeps its place.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mlxctl.engine.scheduling.fair_queue import FairQueue
from mlxctl.engine.scheduling.model_queue import ModelQueue
from mlxctl.engine.scheduling.prefill_planner import PrefillPlanner
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.ir.scheduler_policy import SchedulerPolicy

MIN_SLICE_TOKENS = 4
"""Tokens that a row generates at least before it is interrupted."""


@dataclass(slots=True)
class FairnessCounters:
    """Rows interrupted and resumed, and tokens by priority, since the start."""

    num_preemptions: int = 0
    num_yields: int = 0
    num_resumes: int = 0
    tokens: dict[int, int] = field(default_factory=dict)

    def add_tokens(self, priority: int, num_tokens: int) -> None:
        """Count computed tokens."""
        self.tokens[priority] = self.tokens.get(priority, 0) + num_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """A decoding row to interrupt, and the sequence that gets its place.

    `is_yield`: the row has had its time slice.
    """

    row: Sequence
    beneficiary: Sequence
    is_yield: bool


class PreemptionPlanner:
    """Selects rows to interrupt, over the queues of all models."""

    def __init__(
        self,
        queues: Mapping[str, ModelQueue],
        planner: PrefillPlanner,
        fair: FairQueue,
        policy: SchedulerPolicy,
    ) -> None:
        self._queues = queues
        self._planner = planner
        self._fair = fair
        self.policy = policy

    def next(self, *, now: float, available_bytes: int) -> Preemption | None:
        """Return the next row to interrupt.

        None if every row keeps its place.
        """
        policy = self.policy
        if not policy.enable_preemption and not policy.max_timeslice_tokens:
            return None
        blocked = [
            row for queue in self._queues.values() for row in self._planner.blocked(queue, available_bytes)
        ]
        if not blocked:
            return None
        rows = [row for queue in self._queues.values() for group in queue.groups for row in group]
        rows = [row for row in rows if not row.is_exhausted and row.num_slice_tokens >= MIN_SLICE_TOKENS]
        for waiting in self._fair.ranked(blocked, now=now) if rows else ():
            for is_yield, interruptible in (
                (False, self._of_lower_priority(waiting, rows)),
                (True, self._past_slice(waiting, rows, now)),
            ):
                if interruptible and self._makes_room(waiting, interruptible, available_bytes):
                    row = max(interruptible, key=_rank)
                    return Preemption(row=row, beneficiary=waiting, is_yield=is_yield)
        return None

    def _of_lower_priority(self, waiting: Sequence, rows: list[Sequence]) -> list[Sequence]:
        policy = self.policy
        if not policy.enable_preemption or waiting.priority > policy.high_priority_threshold:
            return []
        return [row for row in rows if row.admitted_priority > waiting.priority]

    def _past_slice(self, waiting: Sequence, rows: list[Sequence], now: float) -> list[Sequence]:
        num_tokens = self.policy.max_timeslice_tokens
        if not num_tokens:
            return []
        value = self._fair.aged_priority(waiting, now=now)
        return [
            row
            for row in rows
            if row.num_slice_tokens >= num_tokens
            and row.priority > self.policy.high_priority_threshold
            and row.priority >= value
        ]

    def _makes_room(self, waiting: Sequence, rows: list[Sequence], available_bytes: int) -> bool:
        """Whether the waiting sequence fits once all these rows are interrupted."""
        freed = sum(self._queues[row.model].costs.cache_bytes(row.length) for row in rows)
        return self._planner.fits(self._queues[waiting.model], waiting, available_bytes + freed)


def _rank(row: Sequence) -> tuple[float, ...]:
    return (row.admitted_priority, row.num_slice_tokens, row.arrived_at, row.sequence_id)
