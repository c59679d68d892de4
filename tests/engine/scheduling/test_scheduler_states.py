"""Scheduler under random arrivals, priorities, memory, cancels, disk reads, pauses, preemption.

No row is lost, none starves, and the counters equal the events.
"""

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from mlxctl.engine.scheduling.batch import Batch, RowResult
from mlxctl.engine.scheduling.model_queue import ModelCosts
from mlxctl.engine.scheduling.scheduler import Scheduler
from mlxctl.engine.scheduling.sequence import Sequence, SequenceState
from mlxctl.ir.scheduler_policy import SchedulerPolicy

from .test_scheduler import make_sequence

MAX_ROWS = 3
PLENTY = 1 << 40


class SchedulerMachine(RuleBasedStateMachine):
    """The scheduler with a runner that computes nothing."""

    rows = Bundle("rows")

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = Scheduler(
            SchedulerPolicy(max_rows=MAX_ROWS), prefill_turn_seconds=0.5, prefill_pass_max_tokens=16
        )
        self.scheduler.open_model("m", ModelCosts(weights_bytes=1 << 20, kv_bytes_per_token=1, num_layers=4))
        self.now = 0.0
        self.open: dict[int, Sequence] = {}
        self.on_disk: list[Sequence] = []
        self.num_added = self.num_ended = 0
        self.num_interrupted: Counter[str | None] = Counter()
        self.paused: set[int] = set()
        self.num_resumed = 0
        self.interrupted: set[int] = set()
        self.num_tokens: dict[int, int] = {}

    @rule(
        target=rows,
        num_tokens=st.integers(1, 60),
        max_tokens=st.integers(0, 20),
        priority=st.integers(-100, 100),
        key=st.sampled_from(["a", "b", "c"]),
        shares_prefix=st.booleans(),
    )
    def arrive(self, num_tokens: int, max_tokens: int, priority: int, key: str, shares_prefix: bool) -> int:
        self.num_added += 1
        sequence = make_sequence(
            self.num_added,
            num_tokens,
            first_token=0 if shares_prefix else None,
            max_tokens=max_tokens,
            priority=priority,
            fairness_key=key,
            arrived_at=self.now,
        )
        self.open[self.num_added] = sequence
        self.num_tokens[self.num_added] = 0
        self.scheduler.add(sequence)
        return self.num_added

    @rule(sequence_id=rows)
    def cancel(self, sequence_id: int) -> None:
        cancelled = self.scheduler.cancel([sequence_id])

        assert cancelled == ([self.open[sequence_id]] if sequence_id in self.open else [])
        for sequence in cancelled:
            self.end(sequence)

    @rule(available_bytes=st.sampled_from([0, 100, PLENTY]), seconds=st.sampled_from([0.0, 1.0]))
    def refuse_short_of_memory(self, available_bytes: int, seconds: float) -> None:
        num_before = self.scheduler.counts().num_waiting
        reserved_bytes = self.scheduler._planner.reserved_bytes
        short = self.scheduler.take_short_of_memory(
            available_bytes=available_bytes, now=self.now, seconds=seconds
        )

        assert not short or available_bytes < PLENTY
        assert self.scheduler.counts().num_waiting == num_before - len(short)
        for sequence, needed_bytes in short:
            assert needed_bytes > available_bytes - reserved_bytes
            self.end(sequence)

    @rule(
        max_rows=st.integers(1, MAX_ROWS),
        enable_preemption=st.booleans(),
        high_priority_threshold=st.integers(-100, 100),
        max_timeslice_tokens=st.sampled_from([0, 1, 5]),
        share_rows=st.booleans(),
    )
    def configure(self, **values: Any) -> None:
        self.scheduler.configure(SchedulerPolicy(**values))

    @rule(sequence_id=rows)
    def pause(self, sequence_id: int) -> None:
        self.scheduler.pause([sequence_id])
        self.paused |= {sequence_id} & self.open.keys()

    @precondition(lambda self: self.paused)
    @rule()
    def unpause(self) -> None:
        self.scheduler.unpause(self.paused, now=self.now)
        self.paused.clear()

    @precondition(lambda self: self.on_disk)
    @rule()
    def finish_disk_read(self) -> None:
        sequence = self.on_disk.pop()
        sequence.prefill.restore(0)
        self.scheduler.resume(sequence)

    @precondition(lambda self: self.scheduler.has_work)
    @rule(
        available_bytes=st.sampled_from([0, 100, PLENTY]),
        seconds=st.sampled_from([0.0, 0.01, 3.0]),
        fails=st.integers(0, 20),
        reads_disk=st.booleans(),
        interrupts=st.booleans(),
    )
    def step(
        self, available_bytes: int, seconds: float, fails: int, reads_disk: bool, interrupts: bool
    ) -> None:
        self.now += seconds
        batch = self.scheduler.next_batch(now=self.now, available_bytes=available_bytes)
        if batch is None:
            assert self.on_disk or self.paused
            return
        if batch.turn is not None:
            unfinished = batch.prompts[0].unfinished_pass
            begun = unfinished.prompts if unfinished is not None else tuple(batch.prompts)
            begun = tuple(row for row in begun if row in self.open.values())
            assert begun == tuple(batch.prompts), "a pass goes on as it began"
        is_unfinished = interrupts and batch.turn is not None
        results = self.results(batch, fails=fails == 0, reads_disk=reads_disk, is_unfinished=is_unfinished)
        rows = [row for group in batch.groups for row in group]
        for update in self.scheduler.settle(batch, results, seconds=seconds, now=self.now):
            sequence = self.open[update.sequence_id]
            self.num_tokens[update.sequence_id] += len(update.token_ids)
            if update.finish_reason or update.failure:
                self.end(sequence)
        self.note_interruptions(batch, rows)
        for sequence in [row for row in self.open.values() if row.is_finished]:
            assert not sequence.max_tokens, "a sequence ends with a report"
            self.end(sequence)

    def results(self, batch: Batch, *, fails: bool, reads_disk: bool, is_unfinished: bool) -> list[RowResult]:
        if batch.phase == "restore":
            if reads_disk:
                self.on_disk += batch.prompts
            return [RowResult(sequence=row, is_restoring=reads_disk) for row in batch.prompts]
        if batch.phase == "prefill" and is_unfinished and not fails:
            return [RowResult(sequence=row, is_unfinished=True) for row in batch.prompts]
        if batch.phase == "prefill":
            return [RowResult(sequence=row, failure="broken") for row in batch.prompts] if fails else []
        rows = [row for group in batch.groups for row in group]
        if batch.phase == "preempt" and fails:
            return [RowResult(sequence=row, failure="broken") for row in rows]
        results = []
        for row in rows:
            if row.has_token_in_flight:
                results.append(RowResult(sequence=row, token_ids=[7]))
            if not row.is_exhausted and batch.phase == "decode":
                row.num_sampled_tokens += 1
        return results

    def note_interruptions(self, batch: Batch, rows: list[Sequence]) -> None:
        """Count interrupted rows, and those that decode again; each lost no token."""
        for row in rows:
            if batch.phase == "preempt" and row.state is SequenceState.WAITING:
                self.num_interrupted[batch.reason] += 1
                self.interrupted.add(row.sequence_id)
                assert row.num_prompt_tokens == row.num_client_tokens + len(row.output_token_ids)
                assert not row.has_token_in_flight
        for sequence_id in list(self.interrupted):
            if sequence_id not in self.open:
                self.interrupted.discard(sequence_id)
            elif self.open[sequence_id].state is SequenceState.DECODING:
                self.interrupted.discard(sequence_id)
                self.num_resumed += 1

    def end(self, sequence: Sequence) -> None:
        del self.open[sequence.sequence_id]
        self.on_disk = [row for row in self.on_disk if row is not sequence]
        self.paused.discard(sequence.sequence_id)
        self.num_ended += 1

    @invariant()
    def paused_sequences_do_not_get_a_place(self) -> None:
        places = [row for row in self.open.values() if row.standing.has_place]
        assert not any(row.standing.is_paused for row in places)
        assert self.paused == {number for number, row in self.open.items() if row.standing.is_paused}

    @invariant()
    def every_open_sequence_is_counted_once(self) -> None:
        counts = self.scheduler.counts()
        num_running = counts.num_prefilling + counts.num_decoding
        assert counts.num_waiting + num_running == len(self.open)
        assert num_running <= MAX_ROWS
        assert self.num_added == self.num_ended + len(self.open)
        assert all(row.state is not SequenceState.FINISHED for row in self.open.values())

    @invariant()
    def counters_equal_the_interruptions(self) -> None:
        fairness = self.scheduler.fairness
        counted = self.num_interrupted
        assert fairness.num_preemptions == counted["priority"]
        assert fairness.num_yields == counted["timeslice"] + counted["share"]
        assert fairness.num_pauses == counted["pause"]
        assert fairness.num_resumes == self.num_resumed
        assert self.scheduler.counts().num_preempted <= len(self.interrupted)

    @invariant()
    def no_token_of_a_prompt_is_computed_twice(self) -> None:
        assert all(row.prefill.num_remaining_tokens >= 0 for row in self.open.values())

    @invariant()
    def reported_tokens_are_those_of_the_rows(self) -> None:
        for sequence_id, sequence in self.open.items():
            assert self.num_tokens[sequence_id] == len(sequence.output_token_ids)
        assert self.scheduler.num_generated_tokens == sum(self.num_tokens.values())

    def teardown(self) -> None:
        """Nothing arrives anymore: everything ends within a bounded number of steps."""
        self.unpause()
        for _ in range(120 * (len(self.open) + 1)):
            while self.on_disk:
                self.finish_disk_read()
            if not self.scheduler.has_work:
                break
            self.step(available_bytes=0, seconds=0.01, fails=1, reads_disk=False, interrupts=False)
        assert not self.open


TestSchedulerStates = SchedulerMachine.TestCase
TestSchedulerStates.settings = settings(max_examples=40, stateful_step_count=60, deadline=None)


def test_flood_of_higher_priority_does_not_starve_lowest() -> None:
    scheduler = Scheduler(SchedulerPolicy(max_rows=1), prefill_turn_seconds=0.5, prefill_pass_max_tokens=64)
    scheduler.open_model("m", ModelCosts(weights_bytes=1, kv_bytes_per_token=1))
    lowest = make_sequence(1, priority=100, max_tokens=1)
    scheduler.add(lowest)
    now, number = 0.0, 1
    while not lowest.is_finished and now < 1000:
        # As many arrive as the server can serve, all of the highest precedence.
        if scheduler.counts().num_waiting < 3:
            number += 1
            scheduler.add(make_sequence(number, priority=-100, max_tokens=1, arrived_at=now))
        batch = scheduler.next_batch(now=now, available_bytes=PLENTY)
        assert batch is not None
        results = [RowResult(sequence=row) for row in batch.prompts] if batch.phase == "restore" else []
        for row in (row for group in batch.groups for row in group):
            if row.has_token_in_flight:
                results.append(RowResult(sequence=row, token_ids=[7]))
            row.num_sampled_tokens += batch.phase == "decode"
        now += 1.0
        scheduler.settle(batch, results, seconds=1.0, now=now)

    # Two hundred values apart at two seconds each, and the rows before it in the queue.
    assert lowest.is_finished
    assert 400 <= now <= 430
