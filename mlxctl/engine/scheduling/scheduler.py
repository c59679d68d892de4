"""Scheduler: selects each step's batch and applies its results. Pure; MLX thread.

- A batch is a restore, a prefill pass, one decode step of all rows of one model, or the preemption of a row.
- Prefill and decode of a model take turns, so that a long prompt delays the decoding rows by one slice a
  step. Models take turns, too.
"""

import math
from collections.abc import Iterable
from collections.abc import Sequence as Many
from typing import Literal

from mlxctl.engine.failures import failure_message
from mlxctl.engine.scheduling.batch import Batch, PreemptionReason, RowResult
from mlxctl.engine.scheduling.fair_queue import FairQueue
from mlxctl.engine.scheduling.model_queue import ModelCosts, ModelQueue, QueueCounts
from mlxctl.engine.scheduling.preemption import FairnessCounters, PreemptionPlanner
from mlxctl.engine.scheduling.prefill_batching import padded_tokens
from mlxctl.engine.scheduling.prefill_pacer import DEFAULT_MIN_PASS_COST, PrefillPacer
from mlxctl.engine.scheduling.prefill_planner import PrefillPlanner, wait_for_shared_prefix
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.engine.wire.reports import PrefillFigures, RowUpdate, Score
from mlxctl.ir.scheduler_policy import SchedulerPolicy

# PERF: shortest interval of progress reports, since each one wakes the front and its client.
_PROGRESS_SECONDS = 0.1


class Scheduler:
    """Decides which rows run in the next step and applies its results.

    Invariants: a sequence is in exactly one list, that of its state; at most `max_rows` sequences hold a
    place; a finished sequence is in no list and is never reported again.
    """

    def __init__(
        self,
        policy: SchedulerPolicy,
        *,
        prefill_slice_seconds: float,
        prefill_chunk_max_tokens: int,
        min_pass_cost: float = DEFAULT_MIN_PASS_COST,
    ) -> None:
        self._policy = policy
        self._min_pass_cost = min_pass_cost
        self._slice_seconds = prefill_slice_seconds
        self._chunk_max_tokens = prefill_chunk_max_tokens
        self._queues: dict[str, ModelQueue] = {}
        self._planner = PrefillPlanner(self._queues, max_rows=policy.max_rows)
        self._by_id: dict[int, Sequence] = {}
        self._fair = FairQueue(aging_seconds=policy.aging_seconds)
        self._preemption = PreemptionPlanner(self._queues, self._planner, self._fair, policy)
        self.fairness = FairnessCounters()
        self._last_phase: Literal["prefill", "decode", "join"] | None = None
        self._last_model: str | None = None
        self.num_prompt_tokens = 0
        self.num_generated_tokens = 0

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
            slice_seconds=self._slice_seconds,
            max_tokens=self._chunk_max_tokens,
            gap_seconds=self._gap_seconds,
            min_pass_cost=self._min_pass_cost,
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
        """Interrupt these sequences until `unpause`; others may then have their places.

        Ids of finished ones are ignored.
        """
        for sequence_id in sequence_ids:
            if sequence := self._by_id.get(sequence_id):
                sequence.is_paused, sequence.has_place = True, False

    def unpause(self, sequence_ids: Iterable[int], *, now: float) -> None:
        """Let paused sequences go on."""
        for sequence_id in sequence_ids:
            if sequence := self._by_id.get(sequence_id):
                # The pause is no wait that counts for aging or the target time to first token.
                sequence.is_paused, sequence.served_at = False, now

    def is_open(self, model: str) -> bool:
        """Whether sequences for the model are accepted."""
        return model in self._queues

    @property
    def has_work(self) -> bool:
        """Whether there are sequences."""
        return bool(self._by_id)

    @property
    def has_decoding_rows(self) -> bool:
        """Whether any model has rows in its decode batch."""
        return any(queue.groups for queue in self._queues.values())

    def counts(self) -> QueueCounts:
        """Return the numbers of sequences by state."""
        return QueueCounts.of(self._queues.values())

    def prompt_bytes(self, model: str, num_prompt_tokens: int) -> int:
        """Return a prompt's cache bytes, with room for first output tokens."""
        return self._queues[model].prompt_bytes(num_prompt_tokens)

    def take_short_of_memory(
        self, *, available_bytes: int, now: float, seconds: float
    ) -> list[tuple[Sequence, int]]:
        """Remove and return prompts that waited `seconds` for memory alone.

        With their bytes.
        """
        short = [
            (row, queue.prompt_bytes(row.num_prompt_tokens))
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
            if preemption.beneficiary is not None:
                preemption.beneficiary.has_place = True
            return Batch(
                phase="preempt",
                model=preemption.row.model,
                groups=[[preemption.row]],
                reason=preemption.reason,
            )
        turn = self._next_model(available_bytes)
        if turn is None:
            return None
        name, queue, candidates = turn
        rows = queue.num_decoding
        joins_apart = queue.pacer.joins_apart(rows)
        is_after_decode = self._last_phase in ("decode", "join")
        # Prompts wait for one join at most.
        joins_first = self._last_phase == "decode" and joins_apart and queue.can_join
        if candidates and (not rows or is_after_decode) and not joins_first:
            wait, target = max(now - row.served_at for row in candidates), self._policy.target_ttft_ms / 1e3
            lateness = wait / target if target else math.inf
            self._last_phase = "prefill"
            ranked = self._fair.ranked(candidates, now=now)
            batch = self._planner.next_batch(name, queue, ranked, available_bytes, lateness=lateness)
            for sequence in batch.prompts:
                if sequence.needs_restore:
                    sequence.admitted_priority = self._fair.aged_priority(sequence, now=now)
                if sequence.left_queue_at is None:
                    sequence.left_queue_at = now
            return batch
        # A join right after a pass would be part of the same gap.
        joins = (is_after_decode or not joins_apart) and queue.regroup()
        self._last_phase = "join" if joins else "decode"
        groups = [list(group) for group in queue.groups]
        return Batch(phase="decode", model=name, groups=groups, joins=joins)

    def settle(
        self, batch: Batch, results: Iterable[RowResult], *, seconds: float, now: float
    ) -> list[RowUpdate]:
        """Apply the results of a batch; return the updates for the front."""
        if batch.phase == "decode":
            return [
                self._fail(result) if result.failure else self._append_tokens(result) for result in results
            ]
        if batch.phase == "restore":
            return self._settle_restore(results)
        if batch.phase == "preempt":
            interrupted = (self._preempt(result, now, batch.reason) for result in results)
            return [update for update in interrupted if update is not None]
        return self._settle_prefill(batch, results, seconds, now)

    def observe_step(self, batch: Batch, *, seconds: float) -> None:
        """Add the time that a batch kept the thread.

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
            queue.restoring or any(row.is_paused for row in queue.waiting) for queue in self._queues.values()
        )
        return None

    def _settle_restore(self, results: Iterable[RowResult]) -> list[RowUpdate]:
        updates = []
        for result in results:
            sequence = result.sequence
            if result.failure:
                updates.append(self._fail(result))
                continue
            if result.is_restoring:
                self._queues[sequence.model].wait_for_disk(sequence)
                continue
            sequence.needs_restore = False
            if not sequence.was_preempted:
                sequence.cache_usage = result.cache_usage
            sequence.num_cached_tokens = sequence.num_computed_tokens = result.cache_usage.num_cached_tokens
            sequence.checkpoint_positions = sorted(
                {*sequence.checkpoint_positions, *result.checkpoint_positions}
            )
        return updates

    def _settle_prefill(
        self, batch: Batch, results: Iterable[RowResult], seconds: float, now: float
    ) -> list[RowUpdate]:
        queue = self._queues[batch.model]
        failures = [result for result in results if result.failure]
        if failures:
            return [self._fail(result) for result in failures]
        self._observe_prefill(queue.pacer, batch, seconds)
        for sequence in batch.prompts:
            num_tokens = batch.num_tokens if len(batch.prompts) == 1 else sequence.num_tokens_to_prefill
            sequence.num_computed_tokens += num_tokens
            sequence.served_at = now
            self._charge(sequence, num_tokens)
        self.num_prompt_tokens += batch.num_tokens
        scores = {result.sequence.sequence_id: list(result.prompt_scores) for result in results}
        updates = [
            _progress(sequence, now, scores.get(sequence.sequence_id, []))
            for sequence in batch.prompts
            if not sequence.was_preempted
            and (_is_progress_due(sequence, now) or sequence.sequence_id in scores)
        ]
        if all(sequence.num_tokens_to_prefill == 0 for sequence in batch.prompts):
            self._start_decoding(queue, batch.prompts)
        return updates

    def _start_decoding(self, queue: ModelQueue, prefilled: Many[Sequence]) -> None:
        """Start to decode prefilled prompts; a prompt without output tokens is finished."""
        for sequence in prefilled:
            if not sequence.max_tokens:
                self._remove(sequence)
        if decoding := [sequence for sequence in prefilled if sequence.max_tokens]:
            queue.start_decoding(decoding)
            self.fairness.num_resumes += sum(sequence.was_preempted for sequence in decoding)

    @staticmethod
    def _observe_prefill(pacer: PrefillPacer, batch: Batch, seconds: float) -> None:
        # The time of the vision encoder says nothing about the cost of tokens.
        if not batch.num_tokens or batch.prompts[0].encodes_image(batch.num_tokens):
            return
        num_tokens = batch.num_tokens if len(batch.prompts) == 1 else padded_tokens(batch.prompts)
        context = max(prompt.num_computed_tokens for prompt in batch.prompts)
        pacer.observe_prefill(num_tokens, seconds, rows=batch.num_decoding_rows, context=context)

    def _append_tokens(self, result: RowResult) -> RowUpdate:
        sequence, token_ids = result.sequence, list(result.token_ids)
        sequence.output_token_ids += token_ids
        sequence.num_slice_tokens += len(token_ids)
        self._charge(sequence, len(token_ids))
        self.num_generated_tokens += len(token_ids)
        reason: Literal["stop", "length"] | None = None
        if token_ids[-1] in sequence.stop_token_ids:
            reason = "stop"
        elif len(sequence.output_token_ids) >= sequence.max_tokens:
            reason = "length"
        if reason:
            self._remove(sequence)
        return RowUpdate(
            sequence_id=sequence.sequence_id,
            token_ids=token_ids,
            scores=list(result.scores),
            num_accepted_draft_tokens=result.num_accepted_tokens,
            num_rejected_draft_tokens=result.num_draft_tokens - result.num_accepted_tokens,
            finish_reason=reason,
        )

    def _preempt(self, result: RowResult, now: float, reason: PreemptionReason | None) -> RowUpdate | None:
        """Append the last token of an interrupted row.

        The row waits again unless that token ends it.
        """
        if result.failure:
            return self._fail(result)
        update = self._append_tokens(result) if result.token_ids else None
        if not result.sequence.is_finished:
            self._queues[result.sequence.model].preempt(result.sequence, now=now)
            # A row that was interrupted for others goes on before its caller's new ones.
            result.sequence.resumes_first = reason != "timeslice"
            self.fairness.add_interruption(reason)
        return update

    def _charge(self, sequence: Sequence, num_tokens: int) -> None:
        self._fair.charge(sequence, num_tokens)
        self.fairness.add_tokens(sequence.priority, num_tokens)

    def _fail(self, result: RowResult) -> RowUpdate:
        sequence = result.sequence
        self._remove(sequence)
        assert result.failure is not None
        failure = failure_message(result.failure, sequence.request_id)
        return RowUpdate(sequence_id=sequence.sequence_id, failure=failure)

    def _remove(self, sequence: Sequence) -> None:
        self._queues[sequence.model].remove(sequence)
        self._by_id.pop(sequence.sequence_id, None)


def _is_progress_due(sequence: Sequence, now: float) -> bool:
    return sequence.num_tokens_to_prefill == 0 or now - sequence.reported_at >= _PROGRESS_SECONDS


def _progress(sequence: Sequence, now: float, scores: list[Score]) -> RowUpdate:
    sequence.reported_at = now
    is_prefilled = sequence.num_tokens_to_prefill == 0
    return RowUpdate(
        sequence_id=sequence.sequence_id,
        num_processed=sequence.num_computed_tokens,
        cache_usage=sequence.cache_usage,
        prefill=_prefill_figures(sequence, now) if is_prefilled else None,
        prompt_scores=scores,
        finish_reason="length" if is_prefilled and not sequence.max_tokens else None,
    )


def _prefill_figures(sequence: Sequence, now: float) -> PrefillFigures:
    left_queue_at = sequence.left_queue_at
    assert left_queue_at is not None, "a batch comes before its results"
    return PrefillFigures(
        queue_seconds=left_queue_at - sequence.arrived_at,
        prefill_seconds=now - left_queue_at,
        vision_seconds=sequence.vision_seconds,
    )
