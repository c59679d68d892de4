"""Applies the results of batches to their sequences. Pure; MLX thread."""

from collections import abc
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec

from mlxctl.engine.host.failures import failure_message
from mlxctl.engine.scheduling.batch import Batch, RowResult
from mlxctl.engine.scheduling.fair_queue import FairQueue
from mlxctl.engine.scheduling.model_queue import ModelQueue
from mlxctl.engine.scheduling.preemption import FairnessCounters
from mlxctl.engine.scheduling.prefill_batching import padded_tokens
from mlxctl.engine.scheduling.prefill_pacer import PrefillPacer
from mlxctl.engine.scheduling.sequence import Sequence, UnfinishedPass
from mlxctl.engine.wire.reports import PreemptionReason, RowUpdate, Score

# PERF: shortest interval of progress reports, since each one wakes the front and its client.
_PROGRESS_SECONDS = 0.1


class ResultProcessor:
    """Applies results to sequences, counts tokens, builds the front's updates."""

    def __init__(
        self, queues: Mapping[str, ModelQueue], fair: FairQueue, *, remove: Callable[[Sequence], None]
    ) -> None:
        """`remove` takes a sequence that has ended out of its queue."""
        self._queues = queues
        self._fair = fair
        self._remove = remove
        self.fairness = FairnessCounters()
        self.num_prompt_tokens = 0
        self.num_generated_tokens = 0

    def apply(
        self, batch: Batch, results: Iterable[RowResult], *, seconds: float, now: float
    ) -> list[RowUpdate]:
        """Apply the results of a batch; return the updates for the front."""
        if batch.phase in ("decode", "read"):
            return [
                self._fail(result) if result.failure else self._append_tokens(result) for result in results
            ]
        if batch.phase == "restore":
            return self._apply_restore(results, now)
        if batch.phase == "preempt":
            return [self._preempt(result, now, batch.reason) for result in results]
        return self._apply_prefill(batch, results, seconds, now)

    def _apply_restore(self, results: Iterable[RowResult], now: float) -> list[RowUpdate]:
        updates = []
        for result in results:
            sequence = result.sequence
            if result.failure:
                updates.append(self._fail(result))
                continue
            if result.is_restoring:
                self._queues[sequence.model].wait_for_disk(sequence)
                continue
            sequence.statistics.note_restore(result.cache_usage, now=now)
            sequence.prefill.restore(result.cache_usage.num_cached_tokens, result.checkpoint_positions)
        return updates

    def _apply_prefill(
        self, batch: Batch, results: Iterable[RowResult], seconds: float, now: float
    ) -> list[RowUpdate]:
        queue = self._queues[batch.model]
        failures = [result for result in results if result.failure]
        if failures:
            return [self._fail(result) for result in failures]
        if any(result.is_unfinished for result in results):
            added_seconds = queue.pacer.added_seconds(seconds, rows=batch.num_decoding_rows)
            self._interrupt(batch, added_seconds, now)
            return []
        self._observe_prefill(queue.pacer, batch, seconds)
        for sequence in batch.prompts:
            is_alone = len(batch.prompts) == 1
            num_tokens = batch.num_tokens if is_alone else sequence.prefill.num_remaining_tokens
            if sequence.unfinished_pass is None:
                self._fair.let_overtake(sequence, num_tokens)
            sequence.unfinished_pass = None
            sequence.prefill.finish_pass(num_tokens)
            sequence.standing.serve(now=now)
            self._fair.overtake(queue.prefilling, sequence, num_tokens)
            self._charge(sequence, num_tokens)
        self.num_prompt_tokens += batch.num_tokens
        scores = {result.sequence.sequence_id: list(result.prompt_scores) for result in results}
        updates = [
            _progress(sequence, now, scores.get(sequence.sequence_id, []))
            for sequence in batch.prompts
            if not sequence.was_preempted
            and (_is_progress_due(sequence, now) or sequence.sequence_id in scores)
        ]
        if all(sequence.prefill.num_remaining_tokens == 0 for sequence in batch.prompts):
            updates += self._start_decoding(queue, batch.prompts)
        return updates

    def _interrupt(self, batch: Batch, added_seconds: float, now: float) -> None:
        """Note that the pass of the batch continues in a later one."""
        is_alone = len(batch.prompts) == 1
        unfinished = batch.prompts[0].unfinished_pass
        if unfinished is None:
            unfinished = UnfinishedPass(tuple(batch.prompts), batch.num_tokens if is_alone else 0)
            for prompt in batch.prompts:
                prompt.unfinished_pass = unfinished
                remaining = prompt.prefill.num_remaining_tokens
                self._fair.let_overtake(prompt, batch.num_tokens if is_alone else remaining)
        unfinished.seconds += added_seconds
        for prompt in batch.prompts:
            prompt.standing.serve(now=now)

    def _start_decoding(self, queue: ModelQueue, prefilled: abc.Sequence[Sequence]) -> list[RowUpdate]:
        """Start to decode prefilled prompts; finish those without output tokens.

        Returns updates of those that were preempted.
        """
        for sequence in prefilled:
            if not sequence.max_tokens:
                self._remove(sequence)
        if decoding := [sequence for sequence in prefilled if sequence.max_tokens]:
            queue.start_decoding(decoding)
        resumed = [sequence.sequence_id for sequence in decoding if sequence.was_preempted]
        self.fairness.num_resumes += len(resumed)
        return [RowUpdate(sequence_id=sequence_id, has_resumed=True) for sequence_id in resumed]

    @staticmethod
    def _observe_prefill(pacer: PrefillPacer, batch: Batch, seconds: float) -> None:
        # The time of the vision encoder says nothing about the cost of tokens.
        if not batch.num_tokens or batch.prompts[0].encodes_image(batch.num_tokens):
            return
        num_tokens = batch.num_tokens if len(batch.prompts) == 1 else padded_tokens(batch.prompts)
        context = max(prompt.prefill.num_computed_tokens for prompt in batch.prompts)
        unfinished = batch.prompts[0].unfinished_pass
        pacer.observe_prefill(
            num_tokens,
            seconds,
            rows=batch.num_decoding_rows,
            context=context,
            earlier_seconds=unfinished.seconds if unfinished is not None else 0.0,
        )

    def _append_tokens(self, result: RowResult) -> RowUpdate:
        sequence, token_ids = result.sequence, list(result.token_ids)
        sequence.output_token_ids += token_ids
        self._charge(sequence, len(token_ids))
        self.num_generated_tokens += len(token_ids)
        reason: Literal["stop", "length"] | None = None
        if token_ids[-1] in sequence.stop_token_ids:
            reason = "stop"
        elif len(sequence.output_token_ids) >= sequence.max_tokens:
            reason = "length"
        if reason:
            self._queues[sequence.model].output_lengths.note(len(sequence.output_token_ids))
            self._remove(sequence)
        return RowUpdate(
            sequence_id=sequence.sequence_id,
            token_ids=token_ids,
            scores=list(result.scores),
            num_accepted_draft_tokens=result.num_accepted_tokens,
            num_rejected_draft_tokens=result.num_draft_tokens - result.num_accepted_tokens,
            finish_reason=reason,
        )

    def _preempt(self, result: RowResult, now: float, reason: PreemptionReason | None) -> RowUpdate:
        """Append the last token of an interrupted row.

        The row waits again unless that token ends it.
        """
        if result.failure:
            return self._fail(result)
        sequence = result.sequence
        update = (
            self._append_tokens(result) if result.token_ids else RowUpdate(sequence_id=sequence.sequence_id)
        )
        if sequence.is_finished:
            return update
        # A row that was interrupted for others continues before its caller's new ones.
        self._queues[sequence.model].preempt(sequence, resumes_first=reason != "timeslice", now=now)
        if reason == "memory":
            sequence.standing.give_memory()
        self.fairness.add_interruption(reason)
        return msgspec.structs.replace(update, interruption=reason)

    def _charge(self, sequence: Sequence, num_tokens: int) -> None:
        self._fair.charge(sequence, num_tokens)
        self.fairness.add_tokens(sequence.priority, num_tokens)

    def _fail(self, result: RowResult) -> RowUpdate:
        sequence = result.sequence
        self._remove(sequence)
        assert result.failure is not None
        failure = failure_message(result.failure, sequence.request_id)
        return RowUpdate(sequence_id=sequence.sequence_id, failure=failure)


def _is_progress_due(sequence: Sequence, now: float) -> bool:
    return (
        sequence.prefill.num_remaining_tokens == 0
        or now - sequence.statistics.reported_at >= _PROGRESS_SECONDS
    )


def _progress(sequence: Sequence, now: float, scores: list[Score]) -> RowUpdate:
    statistics = sequence.statistics
    statistics.note_report(now=now)
    is_prefilled = sequence.prefill.num_remaining_tokens == 0
    return RowUpdate(
        sequence_id=sequence.sequence_id,
        num_processed=sequence.prefill.num_computed_tokens,
        cache_usage=statistics.cache_usage,
        prefill=statistics.figures(arrived_at=sequence.arrived_at, now=now) if is_prefilled else None,
        prompt_scores=scores,
        finish_reason="length" if is_prefilled and not sequence.max_tokens else None,
    )
