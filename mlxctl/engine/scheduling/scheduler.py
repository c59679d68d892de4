"""Scheduler: selects each step's batch and applies its results. Pure; MLX thread.

- A batch is a restore, a prefill pass, one decode step of all rows of one model, or the preemption of a row.
- A decode step's tokens are read in the next one. First tokens are read before the next pass, which would
  delay them.
- Prefill and decode of a model take turns, so that a long prompt delays the decoding rows by one turn a
  step. The first rows of a burst wait until its other prompts are prefilled. Models take turns, too.
"""

import math
from collections import abc
from collections.abc import Iterable
from typing import Literal

from mlxctl.engine.scheduling.batch import Batch, RowResult
from mlxctl.engine.scheduling.fair_queue import FairQueue
from mlxctl.engine.scheduling.memory_relief import MemoryRelief
from mlxctl.engine.scheduling.model_queue import ModelCosts, ModelQueue, QueueCounts
from mlxctl.engine.scheduling.preemption import FairnessCounters, Preemption, PreemptionPlanner
from mlxctl.engine.scheduling.prefill_pacer import PrefillPacer
from mlxctl.engine.scheduling.prefill_planner import PrefillPlanner, wait_for_shared_prefix
from mlxctl.engine.scheduling.result_processor import ResultProcessor
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.engine.wire.reports import RowUpdate
from mlxctl.ir.scheduler_policy import SchedulerPolicy


class Scheduler:
    """Decides which rows run in the next step and applies its results.

    Invariants: a sequence is in exactly one list, that of its state; at most `max_rows` sequences hold a
    place; a finished sequence is in no list and is never reported again.
    """

    def __init__(
        self,
        policy: SchedulerPolicy,
        *,
        prefill_turn_seconds: float,
        prefill_pass_max_tokens: int,
    ) -> None:
        self._policy = policy
        self._turn_seconds = prefill_turn_seconds
        self._chunk_max_tokens = prefill_pass_max_tokens
        self._queues: dict[str, ModelQueue] = {}
        self._planner = PrefillPlanner(self._queues, max_rows=policy.max_rows)
        self._by_id: dict[int, Sequence] = {}
        self._fair = FairQueue(aging_seconds=policy.aging_seconds)
        self._preemption = PreemptionPlanner(self._queues, self._planner, self._fair, policy)
        self._relief = MemoryRelief(self._queues)
        self._processor = ResultProcessor(self._queues, self._fair, remove=self._remove)
        self._last_phase: Literal["prefill", "decode", "join"] | None = None
        self._last_model: str | None = None

    def configure(self, policy: SchedulerPolicy) -> None:
        """Apply a new policy from the next step on.

        Rows above a lower limit keep their places.
        """
        self._policy = self._preemption.policy = policy
        self._planner.max_rows = policy.max_rows
        self._fair.aging_seconds = policy.aging_seconds
        for queue in self._queues.values():
            queue.pacer.gap_seconds = self._gap_seconds

    @property
    def _gap_seconds(self) -> float | None:
        return self._policy.target_gap_ms / 1e3 if self._policy.target_gap_ms is not None else None

    def open_model(self, name: str, costs: ModelCosts) -> None:
        """Accept sequences for a model."""
        pacer = PrefillPacer(
            turn_seconds=self._turn_seconds,
            max_tokens=self._chunk_max_tokens,
            gap_seconds=self._gap_seconds,
            num_layers=costs.num_layers,
            memory=costs.pass_memory,
        )
        self._queues[name] = ModelQueue(costs, pacer)

    def close_model(self, name: str) -> None:
        """Accept no more sequences for a model without sequences."""
        assert not self.is_in_use(name), "a model is closed after its sequences"
        del self._queues[name]

    @property
    def sequences(self) -> tuple[Sequence, ...]:
        """All sequences that have not ended."""
        return tuple(self._by_id.values())

    def is_in_use(self, model: str) -> bool:
        """Whether sequences of the model wait or run."""
        return model in self._queues and self._queues[model].has_work

    def add(self, sequence: Sequence) -> None:
        """Add a new sequence of an open model."""
        queue = self._queues[sequence.model]
        self._fair.enter(sequence.fairness_key, {other.fairness_key for other in self._by_id.values()})
        self._by_id[sequence.sequence_id] = sequence
        queue.waiting.append(sequence)
        for other in queue.admitted:
            wait_for_shared_prefix(sequence, other)

    def cancel(self, sequence_ids: Iterable[int]) -> list[Sequence]:
        """Remove these sequences and return them; ids of finished ones are ignored."""
        cancelled = [self._by_id[sequence_id] for sequence_id in sequence_ids if sequence_id in self._by_id]
        for sequence in cancelled:
            self._remove(sequence)
        return cancelled

    def pause(self, sequence_ids: Iterable[int]) -> None:
        """Interrupt these sequences until `unpause`; others may get their places.

        Ids of finished ones are ignored.
        """
        for sequence_id in sequence_ids:
            if sequence := self._by_id.get(sequence_id):
                sequence.standing.pause()

    def unpause(self, sequence_ids: Iterable[int], *, now: float) -> None:
        """Let paused sequences continue."""
        for sequence_id in sequence_ids:
            if sequence := self._by_id.get(sequence_id):
                sequence.standing.unpause(now=now)

    @property
    def has_work(self) -> bool:
        """Whether there are sequences."""
        return bool(self._by_id)

    @property
    def has_decoding_rows(self) -> bool:
        """Whether any model has rows in its decode batch."""
        return any(queue.groups for queue in self._queues.values())

    @property
    def fairness(self) -> FairnessCounters:
        """Interruptions of rows, and computed tokens by priority."""
        return self._processor.fairness

    @property
    def num_prompt_tokens(self) -> int:
        """Prompt tokens that were computed since the start."""
        return self._processor.num_prompt_tokens

    @property
    def num_generated_tokens(self) -> int:
        """Tokens that were generated since the start."""
        return self._processor.num_generated_tokens

    def counts(self) -> QueueCounts:
        """Return the numbers of sequences by state."""
        return QueueCounts.of(self._queues.values())

    def prompt_bytes(self, model: str, num_prompt_tokens: int, max_tokens: int) -> int:
        """Return what a prompt needs, with room for first output tokens."""
        return self._queues[model].prompt_bytes(num_prompt_tokens, max_tokens)

    def take_short_of_memory(
        self, *, available_bytes: int, now: float, seconds: float
    ) -> list[tuple[Sequence, int]]:
        """Remove and return prompts that waited `seconds` for memory alone.

        Each comes with the bytes that its cache needs.
        """
        short = [
            (row, queue.prompt_bytes(row.num_prompt_tokens, row.max_tokens))
            for queue in self._queues.values()
            if queue.waiting
            for row in self._planner.short_of_memory(queue, available_bytes, now=now, seconds=seconds)
        ]
        for row, _ in short:
            self._remove(row)
        return short

    def resume(self, sequence: Sequence) -> None:
        """Continue a sequence whose prefix was read from disk."""
        self._queues[sequence.model].resume(sequence)

    def next_batch(self, *, now: float, available_bytes: int) -> Batch | None:
        """Return the next step's work. Requires `has_work`.

        None while all sequences wait for the disk or for their clients. A waiting prompt whose cache does not
        fit into `available_bytes` keeps waiting until running ones have freed memory.
        """
        if preemption := self._preemption.next(now=now, available_bytes=available_bytes):
            return _preempting(preemption)
        turn = self._next_model(available_bytes)
        if turn is None:
            return None
        name, queue, candidates = turn
        if self._planner.is_burst(queue, candidates):
            return self._next_of_burst(name, queue, candidates, available_bytes, now=now)
        rows = queue.num_decoding
        joins_separately = queue.pacer.joins_separately(rows)
        is_after_decode = self._last_phase in ("decode", "join")
        # Prompts wait for one join at most.
        joins_first = self._last_phase == "decode" and joins_separately and queue.can_join
        if candidates and (not rows or is_after_decode) and not joins_first:
            return self._next_prompts(name, queue, candidates, available_bytes, now=now)
        # A join right after a pass would be part of the same gap.
        joins = (is_after_decode or not joins_separately) and queue.regroup()
        self._last_phase = "join" if joins else "decode"
        groups = [list(group) for group in queue.groups]
        return Batch(phase="decode", model=name, groups=groups, joins=joins)

    def instead_of(self, batch: Batch) -> Batch | None:
        """Return what to try in place of a batch without memory.

        None if its row does not fit alone: `end_for_memory` then ends it.
        """
        return self._relief.instead_of(batch)

    def end_for_memory(self, batch: Batch) -> Sequence:
        """Remove and return the row that does not fit alone."""
        row = self._relief.ending(batch)
        self._remove(row)
        return row

    def settle(
        self, batch: Batch, results: abc.Sequence[RowResult], *, seconds: float, now: float
    ) -> list[RowUpdate]:
        """Apply the results of a batch; return the updates for the front."""
        if batch.phase == "restore" and any(result.cache_usage.num_cached_tokens for result in results):
            # Copying a prefix takes a turn like a pass; without a hit the pass follows at once.
            self._last_phase = "prefill"
        return self._processor.apply(batch, results, seconds=seconds, now=now)

    def observe_step(self, batch: Batch, *, seconds: float) -> None:
        """Add the time for which a batch kept the thread.

        It includes the start of the next decode step.
        """
        if batch.phase == "decode":
            rows = sum(map(len, batch.groups))
            pacer = self._queues[batch.model].pacer
            if batch.joins:
                pacer.observe_join(seconds, rows=rows)
            else:
                pacer.observe_decode(seconds, rows=rows, alone=self.is_decode_only(batch))

    def is_decode_only(self, batch: Batch) -> bool:
        """Whether the batch is a decode step without prompts beside it."""
        queue = self._queues[batch.model]
        return batch.phase == "decode" and not queue.waiting and not queue.admitted

    def _next_model(self, available_bytes: int) -> tuple[str, ModelQueue, list[Sequence]] | None:
        """Return the next model in turn with work, and its prefill candidates."""
        names = list(self._queues)
        if self._last_model in names:
            position = names.index(self._last_model)
            names = names[position + 1 :] + names[: position + 1]
        for name in names:
            queue = self._queues[name]
            candidates = self._planner.candidates(queue, available_bytes)
            if candidates or queue.groups:
                self._last_model = name
                return name, queue, candidates
        # A prompt with a cache can always continue, except while it is read from disk; without such prompts,
        # the next one is always admitted, unless it is paused.
        assert any(
            queue.restoring or any(row.standing.is_paused for row in queue.waiting)
            for queue in self._queues.values()
        )
        return None

    def _next_of_burst(
        self, model: str, queue: ModelQueue, candidates: list[Sequence], available_bytes: int, *, now: float
    ) -> Batch:
        """Return a step for the first tokens of new rows, or prompts.

        The rows wait for that step, too, if all prompts take only a short pass.
        """
        num_tokens = sum(row.num_uncomputed_tokens for row in candidates)
        new = [group for group in queue.groups if not all(row.num_sampled_tokens for row in group)]
        if new and not queue.pacer.delays_first_tokens(num_tokens):
            self._last_phase = "decode"
            return Batch(phase="decode", model=model, groups=[list(group) for group in new])
        return self._next_prompts(model, queue, candidates, available_bytes, now=now)

    def _next_prompts(
        self, model: str, queue: ModelQueue, candidates: list[Sequence], available_bytes: int, *, now: float
    ) -> Batch:
        """Return the next restore or prefill batch.

        First tokens in flight are read before a prefill.
        """
        wait = max(now - row.standing.served_at for row in candidates)
        target = self._policy.target_ttft_ms / 1e3
        lateness = wait / target if target else math.inf
        ranked = self._fair.ranked(candidates, now=now)
        batch = self._planner.next_batch(model, queue, ranked, available_bytes, lateness=lateness)
        if batch.phase == "prefill":
            if started := [row for row in queue.decoding if row.has_first_token_in_flight]:
                return Batch(phase="read", model=model, groups=[started])
            self._last_phase = "prefill"
        for sequence in batch.prompts:
            if sequence.prefill.needs_restore:
                sequence.standing.note_admission(self._fair.aged_priority(sequence, now=now))
            sequence.statistics.note_batch(now=now)
        return batch

    def _remove(self, sequence: Sequence) -> None:
        self._queues[sequence.model].remove(sequence)
        self._by_id.pop(sequence.sequence_id, None)
        for queue in self._queues.values():
            for row in queue.waiting:
                row.standing.note_end()


def _preempting(preemption: Preemption) -> Batch:
    """Return the batch that interrupts a row; its successor gets the place."""
    if preemption.beneficiary is not None:
        preemption.beneficiary.standing.reserve_place()
    row = preemption.row
    return Batch(phase="preempt", model=row.model, groups=[[row]], reason=preemption.reason)
