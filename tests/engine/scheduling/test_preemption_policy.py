"""Which rows give their places to others, and when they continue."""

from mlxctl.engine.scheduling.model_queue import ModelCosts
from mlxctl.engine.scheduling.preemption import MIN_SLICE_TOKENS
from mlxctl.engine.scheduling.scheduler import Scheduler
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.ir.scheduler_policy import SchedulerPolicy

from .test_scheduler import PLENTY, make_sequence, run_step

URGENT = -10


def make_scheduler(*, max_rows: int = 1) -> Scheduler:
    policy = SchedulerPolicy(max_rows=max_rows, enable_preemption=True, aging_seconds=2.0)
    scheduler = Scheduler(policy, prefill_turn_seconds=0.5, prefill_pass_max_tokens=64)
    scheduler.open_model("m", ModelCosts(weights_bytes=1 << 20, kv_bytes_per_token=1))
    return scheduler


def start(scheduler: Scheduler, row: Sequence, *, now: float = 0.0, num_tokens: int = 6) -> Sequence:
    """Add a sequence and run until it has some tokens."""
    scheduler.add(row)
    while len(row.output_token_ids) < num_tokens:
        run_step(scheduler, now=now)
    return row


def next_admitted(scheduler: Scheduler, *, now: float) -> int:
    """Run until a prompt is restored; return its number."""
    while True:
        batch, _ = run_step(scheduler, now=now)
        if batch.phase == "restore":
            return batch.prompts[0].sequence_id


def test_urgent_sequence_takes_the_place_of_the_least_urgent_row() -> None:
    scheduler = make_scheduler(max_rows=3)
    for number, priority in enumerate((0, 5, -3), start=1):
        start(scheduler, make_sequence(number, priority=priority, max_tokens=100))
    scheduler.add(make_sequence(4, priority=URGENT))

    batch, (update,) = run_step(scheduler)

    assert (batch.phase, update.sequence_id, update.interruption) == ("preempt", 2, "priority")
    assert next_admitted(scheduler, now=0.0) == 4


def test_row_keeps_its_place_for_its_first_tokens() -> None:
    scheduler = make_scheduler()
    row = start(scheduler, make_sequence(1, max_tokens=100), num_tokens=1)
    scheduler.add(make_sequence(2, priority=URGENT))

    while run_step(scheduler)[0].phase != "preempt":
        pass

    # The token in flight is read when it is preempted.
    assert len(row.output_token_ids) == MIN_SLICE_TOKENS + 1


def test_row_that_waited_long_for_its_place_keeps_it() -> None:
    scheduler = make_scheduler()
    start(scheduler, make_sequence(1, max_tokens=100, arrived_at=0.0), now=50.0)
    scheduler.add(make_sequence(2, priority=URGENT, arrived_at=50.0))

    batch, _ = run_step(scheduler, now=50.0)

    assert batch.phase == "decode"


def test_preempted_row_continues_before_new_sequences_of_its_caller() -> None:
    scheduler = make_scheduler()
    row = start(scheduler, make_sequence(1, max_tokens=100, fairness_key="a"))
    scheduler.add(make_sequence(2, num_tokens=2, fairness_key="a"))
    scheduler.add(make_sequence(3, priority=URGENT, max_tokens=1, arrived_at=1.5))

    assert next_admitted(scheduler, now=1.5) == 3
    assert row.was_preempted
    assert next_admitted(scheduler, now=1.5) == 1


def test_wait_of_a_preempted_row_starts_with_its_preemption() -> None:
    scheduler = make_scheduler()
    start(scheduler, make_sequence(1, priority=1, max_tokens=100))
    scheduler.add(make_sequence(2, priority=URGENT, max_tokens=1, arrived_at=100.0))
    scheduler.add(make_sequence(3, priority=0, arrived_at=100.0))

    assert [next_admitted(scheduler, now=100.0) for _ in range(3)] == [2, 3, 1]


def test_pause_does_not_count_as_wait() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_sequence(1, priority=1))
    scheduler.pause([1])
    scheduler.add(make_sequence(2, priority=0, arrived_at=100.0))
    scheduler.unpause([1], now=100.0)

    assert next_admitted(scheduler, now=100.0) == 2


def test_paused_sequence_gives_up_a_reserved_place() -> None:
    scheduler = make_scheduler()
    start(scheduler, make_sequence(1, max_tokens=100))
    scheduler.add(make_sequence(2, priority=URGENT))
    batch, _ = run_step(scheduler)
    assert batch.phase == "preempt"

    scheduler.pause([2])

    batch = scheduler.next_batch(now=0.0, available_bytes=PLENTY)
    assert batch is not None
    assert [row.sequence_id for row in batch.prompts] == [1]
