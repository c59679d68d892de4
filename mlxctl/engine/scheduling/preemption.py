"""Preemption: which row gives its place to a waiting sequence.

Pure; owned by the MLX thread.

- A waiting sequence of high priority preempts the decoding row with the highest priority value, if that is
  higher than its own. A row that waited long for its place has a lower value: aging counts.
- With time slices, a row that is not of high priority and has had its slice yields to a waiting sequence
  whose value is not higher.
- A waiting sequence of a caller with fewer rows than its share takes one of a caller with more. The share is
  the row limit divided by the number of callers with open sequences.
- A row younger than MIN_SLICE_TOKENS, or one that is about to end, keeps its place.
- A paused row gives up its place whether another one waits or not.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from mlxctl.engine.scheduling.fair_queue import FairQueue
from mlxctl.engine.scheduling.model_queue import ModelQueue
from mlxctl.engine.scheduling.prefill_planner import PrefillPlanner
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.engine.wire.reports import PreemptionReason
from mlxctl.ir.scheduler_policy import SchedulerPolicy

MIN_SLICE_TOKENS = 4
"""Tokens that a row generates at least before it is interrupted."""

_MIN_SHARE_TOKENS = 16


@dataclass(slots=True)
class FairnessCounters:
    """Rows interrupted and resumed, and tokens by priority, since the start."""

    num_preemptions: int = 0
    num_yields: int = 0
    num_pauses: int = 0
    num_resumes: int = 0
    tokens: dict[int, int] = field(default_factory=dict)

    def add_interruption(self, reason: PreemptionReason | None) -> None:
        """Count a row that was interrupted."""
        match reason:
            case "priority" | "memory":
                self.num_preemptions += 1
            case "pause":
                self.num_pauses += 1
            case _:
                self.num_yields += 1

    def add_tokens(self, priority: int, num_tokens: int) -> None:
        """Count tokens that were computed for a priority."""
        self.tokens[priority] = self.tokens.get(priority, 0) + num_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """A decoding row to interrupt, its successor if any, and the reason."""

    row: Sequence
    beneficiary: Sequence | None
    reason: PreemptionReason


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
        for queue in self._queues.values():
            for row in queue.decoding:
                if row.standing.is_paused and row.num_slice_tokens and not row.is_exhausted:
                    return Preemption(row=row, beneficiary=None, reason="pause")
        policy = self.policy
        if not (policy.enable_preemption or policy.max_timeslice_tokens or policy.share_rows):
            return None
        blocked = [
            row for queue in self._queues.values() for row in self._planner.blocked(queue, available_bytes)
        ]
        if not blocked:
            return None
        rows = [row for queue in self._queues.values() for row in queue.decoding]
        rows = [row for row in rows if not row.is_exhausted and row.num_slice_tokens >= MIN_SLICE_TOKENS]
        for waiting in self._fair.ranked(blocked, now=now) if rows else ():
            kinds: tuple[tuple[PreemptionReason, list[Sequence]], ...] = (
                ("priority", self._of_lower_priority(waiting, rows)),
                ("timeslice", self._past_slice(waiting, rows, now)),
                ("share", self._over_share(waiting, rows, now)),
            )
            for reason, interruptible in kinds:
                if interruptible and self._makes_room(waiting, interruptible, available_bytes):
                    row = max(interruptible, key=_rank)
                    return Preemption(row=row, beneficiary=waiting, reason=reason)
        return None

    def _of_lower_priority(self, waiting: Sequence, rows: list[Sequence]) -> list[Sequence]:
        policy = self.policy
        if not policy.enable_preemption or waiting.priority > policy.high_priority_threshold:
            return []
        return [row for row in rows if row.standing.admitted_priority > waiting.priority]

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

    def _over_share(self, waiting: Sequence, rows: list[Sequence], now: float) -> list[Sequence]:
        """Return rows of the caller that has the most.

        Only if the waiting sequence's caller lacks its share.
        """
        if not self.policy.share_rows:
            return []
        queues = self._queues.values()
        held = Counter(row.fairness_key for queue in queues for row in (*queue.admitted, *queue.decoding))
        waits = (row for queue in queues for row in queue.waiting if not row.standing.is_paused)
        callers = {row.fairness_key for row in waits} | held.keys()
        share = max(1, self.policy.max_rows // len(callers))
        most = max(held, key=lambda key: held[key])
        if held[waiting.fairness_key] >= share or held[most] <= share:
            return []
        value = self._fair.aged_priority(waiting, now=now)
        return [
            row
            for row in rows
            if row.fairness_key == most
            and row.num_slice_tokens >= _MIN_SHARE_TOKENS
            and row.priority >= value
        ]

    def _makes_room(self, waiting: Sequence, rows: list[Sequence], available_bytes: int) -> bool:
        """Whether the waiting sequence fits once all these rows are interrupted."""
        freed = sum(self._queues[row.model].costs.cache_bytes(row.length) for row in rows)
        free_bytes = available_bytes - self._planner.reserved_bytes + freed
        return self._planner.fits(self._queues[waiting.model], waiting, free_bytes)


def _rank(row: Sequence) -> tuple[float, ...]:
    return (row.standing.admitted_priority, row.num_slice_tokens, row.arrived_at, row.sequence_id)
