"""Scheduler policy on ints: order, batch sizes, and reported updates."""

import pytest

from mlxctl.engine.scheduling.batch import Batch, RowResult
from mlxctl.engine.scheduling.model_queue import ModelCosts
from mlxctl.engine.scheduling.scheduler import Scheduler
from mlxctl.engine.scheduling.sequence import Sequence, SequenceState
from mlxctl.engine.wire.reports import RowUpdate
from mlxctl.ir import SamplingParams
from mlxctl.ir.cache_usage import NO_CACHE_USAGE, CacheUsage
from mlxctl.ir.scheduler_policy import SchedulerPolicy
from mlxctl.ir.tokens import pack

COSTS = ModelCosts(weights_bytes=1000, kv_bytes_per_token=1)
# Padding between rows of any lengths is affordable.
ROOMY = ModelCosts(weights_bytes=1 << 20, kv_bytes_per_token=1)
PLENTY = 1 << 40
STOP = 99


def make_scheduler(
    *,
    max_rows: int = 4,
    costs: ModelCosts = COSTS,
    max_tokens: int = 64,
    target_gap_ms: float | None = None,
) -> Scheduler:
    scheduler = Scheduler(
        SchedulerPolicy(max_rows=max_rows, target_gap_ms=target_gap_ms),
        prefill_turn_seconds=0.5,
        prefill_pass_max_tokens=max_tokens,
    )
    scheduler.open_model("m", costs)
    return scheduler


def make_sequence(
    sequence_id: int, num_tokens: int = 5, *, first_token: int | None = None, **fields: object
) -> Sequence:
    """Return a sequence with a unique prompt, unless `first_token` is given."""
    first = first_token if first_token is not None else 100_000 * sequence_id
    values: dict[str, object] = {
        "max_tokens": 3,
        "sampling": SamplingParams(),
        "stop_token_ids": frozenset({STOP}),
    }
    values["prompt_token_ids"] = pack(range(first, first + num_tokens))
    return Sequence(sequence_id=sequence_id, model="m", **(values | fields))  # type: ignore[arg-type]


def run_step(
    scheduler: Scheduler,
    *,
    now: float = 0.0,
    token_id: int = 7,
    seconds: float = 0.01,
    cache_usage: CacheUsage = NO_CACHE_USAGE,
) -> tuple[Batch, list[RowUpdate]]:
    """Run one step in place of the runner.

    Every row gives `token_id` one step after its launch; of a prompt to be restored `cache_usage` is cached.
    """
    batch = scheduler.next_batch(now=now, available_bytes=PLENTY)
    results = (
        [RowResult(sequence=sequence, cache_usage=cache_usage) for sequence in batch.prompts]
        if batch.phase == "restore"
        else []
    )
    for row in (row for group in batch.groups for row in group):
        if row.has_token_in_flight:
            results.append(RowResult(sequence=row, token_ids=[token_id]))
        row.num_sampled_tokens += batch.phase == "decode"
    updates = scheduler.settle(batch, results, seconds=seconds, now=now)
    scheduler.observe_step(batch, seconds=seconds)
    return batch, updates


def start_stream(scheduler: Scheduler) -> Sequence:
    """Start a sequence, and run until its first token was read."""
    stream = make_sequence(1, max_tokens=100)
    scheduler.add(stream)
    while not stream.output_token_ids:
        run_step(scheduler)
    return stream


def run_until_idle(scheduler: Scheduler, limit: int = 1000) -> list[Batch]:
    batches = []
    while scheduler.has_work:
        assert len(batches) < limit
        batches.append(run_step(scheduler)[0])
    return batches


def test_prefill_leaves_last_token_and_decode_stops_at_limit() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_sequence(1, num_tokens=5, max_tokens=3))

    batches = run_until_idle(scheduler)

    assert [batch.phase for batch in batches] == [
        "restore",
        "prefill",
        "decode",
        "decode",
        "decode",
        "decode",
    ]
    assert batches[1].num_tokens == 4
    assert (scheduler.num_prompt_tokens, scheduler.num_generated_tokens) == (4, 3)


def test_stop_token_ends_row_and_is_reported() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_sequence(1, max_tokens=50))
    for _ in range(3):
        run_step(scheduler)

    _, updates = run_step(scheduler, token_id=STOP)

    assert (updates[0].token_ids, updates[0].finish_reason) == ([STOP], "stop")
    assert not scheduler.has_work


def test_prefill_and_decode_take_turns_when_both_have_work() -> None:
    scheduler = make_scheduler()
    start_stream(scheduler)
    scheduler.add(make_sequence(2, num_tokens=200, first_token=500))

    phases = [run_step(scheduler)[0].phase for _ in range(6)]

    assert phases == ["restore", *["prefill", "decode"] * 2, "prefill"]


def test_restored_prefix_takes_a_turn_of_the_decoding_rows() -> None:
    scheduler = make_scheduler()
    start_stream(scheduler)
    scheduler.add(make_sequence(2, num_tokens=200, first_token=500))

    phases = [run_step(scheduler, cache_usage=CacheUsage(num_cached_tokens=16))[0].phase for _ in range(3)]

    assert phases == ["restore", "decode", "prefill"]


@pytest.mark.parametrize("target_gap_ms", [5.0, 10.0])
def test_prompt_is_prefilled_where_the_target_gap_leaves_no_time(target_gap_ms: float) -> None:
    scheduler = make_scheduler(target_gap_ms=target_gap_ms)
    start_stream(scheduler)
    run_step(scheduler, seconds=0.01)
    prompt = make_sequence(2, num_tokens=200)
    scheduler.add(prompt)

    batches = [run_step(scheduler, seconds=0.01)[0] for _ in range(80)]

    assert prompt.output_token_ids
    assert all(batch.num_tokens > 0 for batch in batches if batch.phase == "prefill")


def test_first_token_is_read_before_the_next_pass() -> None:
    scheduler = make_scheduler()
    stream = start_stream(scheduler)
    for sequence_id in (2, 3):
        scheduler.add(make_sequence(sequence_id, num_tokens=30 * sequence_id))
    while not scheduler.sequences[1].num_sampled_tokens:
        run_step(scheduler)

    batch, updates = run_step(scheduler)

    assert (batch.phase, [update.sequence_id for update in updates]) == ("read", [2])
    assert stream.has_token_in_flight
    assert run_step(scheduler)[0].phase == "prefill"


def test_short_prompts_are_restored_and_prefilled_together() -> None:
    scheduler = make_scheduler(max_rows=8, costs=ROOMY)
    for sequence_id, num_tokens in enumerate([9, 12, 7, 1000]):
        scheduler.add(make_sequence(sequence_id, num_tokens=num_tokens))

    (restored, _), (read, updates), (decoded, _) = (run_step(scheduler) for _ in range(3))

    assert [row.sequence_id for row in restored.prompts] == [2, 0, 1, 3]
    assert [row.sequence_id for row in read.prompts] == [2, 0, 1]
    assert read.num_tokens == 6 + 8 + 11
    assert [(update.sequence_id, update.num_processed) for update in updates] == [(2, 6), (0, 8), (1, 11)]
    assert [[row.sequence_id for row in group] for group in decoded.groups] == [[2, 0, 1]]


def test_unmergeable_caches_are_prefilled_one_by_one() -> None:
    scheduler = make_scheduler(costs=ModelCosts(weights_bytes=1 << 30, kv_bytes_per_token=1, can_batch=False))
    for sequence_id in range(3):
        scheduler.add(make_sequence(sequence_id))

    batches = run_until_idle(scheduler)

    assert [len(batch.prompts) for batch in batches if batch.phase == "prefill"] == [1, 1, 1]


def test_followers_of_shared_prefix_are_prefilled_together() -> None:
    scheduler = make_scheduler(max_rows=16, costs=ROOMY, max_tokens=512)
    trunk = range(1000, 1400)
    for sequence_id in range(8):
        tail = range(100_000 * sequence_id, 100_000 * sequence_id + 12)
        scheduler.add(make_sequence(sequence_id, prompt_token_ids=pack([*trunk, *tail])))
    batches = [run_step(scheduler)[0]]
    while not scheduler.counts().num_decoding:
        batches.append(run_step(scheduler, cache_usage=CacheUsage(num_cached_tokens=400))[0])

    restored, read = batches[-2:]
    assert (restored.phase, len(restored.prompts)) == ("restore", 7)
    assert (read.phase, len(read.prompts)) == ("prefill", 8)


def test_short_prompt_overtakes_partially_prefilled_long_one() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_sequence(1, num_tokens=5000))
    run_step(scheduler)
    run_step(scheduler)
    scheduler.add(make_sequence(2, num_tokens=10))

    batch, _ = run_step(scheduler)

    assert [sequence.sequence_id for sequence in batch.prompts] == [2]


def test_lower_priority_goes_first_until_aging_overtakes() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_sequence(1, num_tokens=20, priority=1, arrived_at=0.0))
    scheduler.add(make_sequence(2, num_tokens=20, priority=0, arrived_at=1.9))

    (fresh, *_) = scheduler.next_batch(now=1.9, available_bytes=PLENTY).prompts
    scheduler.cancel([2])
    scheduler.add(make_sequence(3, num_tokens=20, priority=0, arrived_at=2.1))
    (aged, *_) = scheduler.next_batch(now=2.1, available_bytes=PLENTY).prompts

    assert (fresh.sequence_id, aged.sequence_id) == (2, 1)


def test_least_served_fairness_key_goes_first() -> None:
    scheduler = make_scheduler(max_rows=1)
    scheduler.add(make_sequence(1, num_tokens=60, fairness_key="greedy"))
    scheduler.add(make_sequence(2, num_tokens=60, fairness_key="greedy"))
    scheduler.add(make_sequence(3, num_tokens=60, fairness_key="modest"))

    batches = run_until_idle(scheduler)

    assert [
        sequence.sequence_id for batch in batches if batch.phase == "restore" for sequence in batch.prompts
    ] == [1, 3, 2]


def test_service_that_no_other_caller_wanted_is_no_debt() -> None:
    scheduler = make_scheduler(max_rows=1)
    scheduler.add(make_sequence(1, num_tokens=500, fairness_key="early"))
    run_until_idle(scheduler)
    scheduler.add(make_sequence(2, num_tokens=60, fairness_key="late"))
    scheduler.add(make_sequence(3, num_tokens=60, fairness_key="late"))
    scheduler.add(make_sequence(4, num_tokens=60, fairness_key="early"))

    batches = run_until_idle(scheduler)

    assert [
        sequence.sequence_id for batch in batches if batch.phase == "restore" for sequence in batch.prompts
    ] == [2, 4, 3]


def test_rows_of_different_lengths_decode_in_separate_groups() -> None:
    scheduler = make_scheduler(costs=ModelCosts(weights_bytes=100, kv_bytes_per_token=1))
    for sequence_id, num_tokens in enumerate([5, 8, 300, 310]):
        scheduler.add(make_sequence(sequence_id, num_tokens=num_tokens, max_tokens=50))

    decodes = [batch for batch in (run_step(scheduler)[0] for _ in range(40)) if batch.phase == "decode"]

    assert [sorted(row.sequence_id for row in group) for group in decodes[-1].groups] == [[2, 3], [0, 1]]


def test_unmergeable_caches_decode_alone() -> None:
    scheduler = make_scheduler(costs=ModelCosts(weights_bytes=1 << 30, kv_bytes_per_token=1, can_batch=False))
    scheduler.add(make_sequence(1, max_tokens=50))
    scheduler.add(make_sequence(2, max_tokens=50))

    batches = [run_step(scheduler)[0] for _ in range(12)]

    assert [len(group) for group in batches[-1].groups] == [1, 1]


@pytest.mark.parametrize("num_steps", [0, 1, 3])
def test_cancelled_sequence_is_removed_before_next_step(num_steps: int) -> None:
    scheduler = make_scheduler()
    sequence = make_sequence(1, num_tokens=100, max_tokens=50)
    scheduler.add(sequence)
    for _ in range(num_steps):
        run_step(scheduler)

    cancelled = scheduler.cancel([1, 12345])

    assert cancelled == [sequence]
    assert sequence.state is SequenceState.FINISHED
    assert not scheduler.has_work


def test_failure_ends_only_its_row() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_sequence(1, max_tokens=50))
    scheduler.add(make_sequence(2, max_tokens=50))
    for _ in range(8):
        batch, _ = run_step(scheduler)
    while batch.phase != "decode":
        batch, _ = run_step(scheduler)
    failed = next(row for group in batch.groups for row in group if row.sequence_id == 1)

    updates = scheduler.settle(batch, [RowResult(sequence=failed, failure="broke")], seconds=0.01, now=0)

    assert [(update.sequence_id, update.failure) for update in updates] == [(1, "broke")]
    assert [row.sequence_id for group in run_step(scheduler)[0].groups for row in group] == [2]


def test_models_take_turns() -> None:
    scheduler = make_scheduler()
    scheduler.open_model("n", COSTS)
    scheduler.add(make_sequence(1, max_tokens=20))
    other = make_sequence(2, max_tokens=20)
    other.model = "n"
    scheduler.add(other)

    models = [run_step(scheduler)[0].model for _ in range(8)]

    assert models.count("m") == models.count("n") == 4


def test_prompt_waits_for_producer_and_raises_its_priority() -> None:
    scheduler = make_scheduler()
    producer = make_sequence(1, num_tokens=1000, first_token=0)
    waiter = make_sequence(2, num_tokens=900, first_token=0, priority=-3)
    scheduler.add(producer)
    run_step(scheduler)
    scheduler.add(waiter)

    batches = [run_step(scheduler)[0] for _ in range(3)]

    assert all(batch.prompts == [producer] for batch in batches)
    assert waiter.state is SequenceState.WAITING
    assert producer.priority == -3
    while waiter.state is SequenceState.WAITING:
        run_step(scheduler)
    assert producer.prefill.num_computed_tokens >= 899
    assert 899 in producer.prefill.checkpoint_positions


def test_waiter_replaces_cancelled_producer() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_sequence(1, num_tokens=1000, first_token=0))
    run_step(scheduler)
    for sequence_id in (2, 3):
        scheduler.add(make_sequence(sequence_id, num_tokens=1000, first_token=0))
    run_step(scheduler)

    scheduler.cancel([1])
    batches = [run_step(scheduler)[0] for _ in range(4)]

    assert [batch.phase for batch in batches] == ["restore", "prefill", "prefill", "prefill"]
    assert len({sequence.sequence_id for batch in batches for sequence in batch.prompts}) == 1


def test_prefill_pauses_at_checkpoints() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_sequence(1, num_tokens=200))
    batch = scheduler.next_batch(now=0, available_bytes=PLENTY)
    (sequence,) = batch.prompts
    scheduler.settle(
        batch,
        [
            RowResult(
                sequence=sequence,
                cache_usage=CacheUsage(num_cached_tokens=10),
                checkpoint_positions=[50, 120],
            )
        ],
        seconds=0.01,
        now=0,
    )

    ends = []
    while sequence.state is SequenceState.PREFILLING:
        run_step(scheduler)
        ends.append(sequence.prefill.num_computed_tokens)

    assert sequence.prefill.num_cached_tokens == 10
    assert {50, 120, 199} <= set(ends)


def test_model_is_in_use_while_sequences_wait_or_run() -> None:
    scheduler = make_scheduler()
    assert not scheduler.is_in_use("m")
    scheduler.add(make_sequence(1, max_tokens=2))
    while scheduler.has_work:
        assert scheduler.is_in_use("m")
        run_step(scheduler)

    assert not scheduler.is_in_use("m")
    scheduler.close_model("m")
    with pytest.raises(KeyError):
        scheduler.add(make_sequence(2))
