"""What runs next, and what it meant: the engine's policy.

Pure; knows no mlx, no sockets and no text; tested with ints.

Owned by the engine's thread. A batch is a prefill chunk of one prompt or one decode step of one model's rows;
while both have work they take turns, so that a long prompt costs the decoding rows one short slice a step and
no more.
"""

from collections.abc import Iterable
from collections.abc import Sequence as Many
from typing import Literal

from mlxctl.engine.failures import failure_message
from mlxctl.engine.scheduling.batch import Batch, RowResult
from mlxctl.engine.scheduling.fair_queue import FairQueue
from mlxctl.engine.scheduling.model_queue import ModelCosts, ModelQueue
from mlxctl.engine.scheduling.prefill_batching import padded_tokens, select_prefill_batch
from mlxctl.engine.scheduling.prefill_pacer import PrefillPacer
from mlxctl.engine.scheduling.sequence import OUTPUT_RESERVE_TOKENS, Sequence, SequenceState
from mlxctl.engine.wire.messages import RowUpdate, Score
from mlxctl.ir.tokens import common_tokens

# Long prompts that may be half read at a time: each holds a cache, and a short one may overtake a long one.
_MAX_LONG_PROMPTS = 4
_LONG_TOKENS = 1024
# Prompts may be restored in one step up to so many tokens of them, each of which may have to be copied; more
# when no row waits.
_RESTORE_TOKENS = 16_384
_RESTORE_TOKENS_ALONE = 65_536
# A prefix that another is reading is worth waiting for from this many tokens on.
_MIN_SHARED_TOKENS = 32
# Requests that come within this time are one burst. The first of them is being read while the others arrive.
_BURST_SECONDS = 0.1
# PERF: how much of a prompt was read is told no more often, since each time wakes the front and its client.
_PROGRESS_SECONDS = 0.1


class Scheduler:
    """Decides which rows run in the next step and settles what it gave.

    Invariants: a sequence is in exactly one list, that of its state; at most `max_rows` sequences hold a
    cache; one that is finished is in no list and never reported again.
    """

    def __init__(
        self,
        *,
        max_rows: int,
        prefill_slice_seconds: float,
        prefill_chunk_max_tokens: int,
        target_gap_seconds: float | None = None,
        target_ttft_seconds: float = 1.0,
    ) -> None:
        self._max_rows = max_rows
        self._gap_seconds = target_gap_seconds
        self._ttft_seconds = target_ttft_seconds
        self._slice_seconds = prefill_slice_seconds
        self._chunk_max_tokens = prefill_chunk_max_tokens
        self._queues: dict[str, ModelQueue] = {}
        self._by_id: dict[int, Sequence] = {}
        self._fair = FairQueue()
        self._last_phase: Literal["prefill", "decode"] | None = None
        self._last_model: str | None = None
        self.num_prompt_tokens = 0
        self.num_generated_tokens = 0

    def open_model(self, name: str, costs: ModelCosts) -> None:
        """Accept sequences for the model from now on."""
        pacer = PrefillPacer(
            slice_seconds=self._slice_seconds,
            max_tokens=self._chunk_max_tokens,
            gap_seconds=self._gap_seconds,
        )
        self._queues[name] = ModelQueue(costs, pacer)

    def close_model(self, name: str) -> None:
        """Accept no more sequences for the model, which must not be in use."""
        assert not self.is_in_use(name), "a model goes after its sequences"
        del self._queues[name]

    def is_in_use(self, model: str) -> bool:
        """Whether sequences of the model wait or run."""
        return model in self._queues and self._queues[model].has_work

    def add(self, sequence: Sequence) -> None:
        """Take a new sequence, whose model must be open."""
        queue = self._queues[sequence.model]
        self._fair.enter(sequence.fairness_key, {other.fairness_key for other in self._by_id.values()})
        self._by_id[sequence.sequence_id] = sequence
        queue.waiting.append(sequence)
        for other in queue.prefilling:
            _wait_for_prefix_of(sequence, other)

    def cancel(self, sequence_ids: Iterable[int]) -> list[Sequence]:
        """Forget these sequences and return those that were there; unknown ids have finished already."""
        cancelled = [self._by_id[sequence_id] for sequence_id in sequence_ids if sequence_id in self._by_id]
        for sequence in cancelled:
            self._remove(sequence)
        return cancelled

    def is_open(self, model: str) -> bool:
        """Whether sequences for the model are accepted."""
        return model in self._queues

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return bool(self._by_id)

    @property
    def has_decoding_rows(self) -> bool:
        """Whether rows wait for their next token."""
        return any(queue.groups for queue in self._queues.values())

    def counts(self) -> tuple[int, int, int, int]:
        """Return the numbers of waiting, prefilling and decoding sequences, and of decode groups."""
        queues = self._queues.values()
        return (
            sum(len(queue.waiting) for queue in queues),
            sum(len(queue.prefilling) for queue in queues),
            sum(queue.num_decoding for queue in queues),
            sum(len(queue.groups) for queue in queues),
        )

    def prompt_bytes(self, model: str, num_prompt_tokens: int) -> int:
        """Return what a prompt's cache takes, with room for the first tokens of the answer."""
        return self._queues[model].costs.kv_bytes_per_token * (num_prompt_tokens + OUTPUT_RESERVE_TOKENS)

    def resume(self, sequence: Sequence) -> None:
        """Go on with a sequence whose known prefix has come from disk."""
        sequence.is_fetching = False
        sequence.has_fetched = True

    def next_batch(self, *, now: float, available_bytes: int) -> Batch | None:
        """Return the next step's work: prefill and decode take turns, and so do models. Needs `has_work`.

        None when all that there is to do waits for the disk.

        A waiting prompt whose cache does not fit into `available_bytes` goes on waiting while others run and
        will free some.
        """
        found = self._next_model(available_bytes)
        if found is None:
            return None
        name, queue, candidates = found
        prefill_turn = not queue.groups or self._last_phase == "decode"
        if candidates and prefill_turn:
            is_overdue = max(now - row.served_at for row in candidates) >= self._ttft_seconds
            return self._prompt_batch(
                name, queue, self._fair.ranked(candidates, now=now), available_bytes, is_overdue=is_overdue
            )
        queue.regroup()
        self._last_phase = "decode"
        return Batch(phase="decode", model=name, groups=[list(group) for group in queue.groups])

    def settle(
        self, batch: Batch, results: Iterable[RowResult], *, seconds: float, now: float
    ) -> list[RowUpdate]:
        """Take the results of a batch and return what the front has to know."""
        if batch.phase == "decode":
            return [
                self._fail(result) if result.failure else self._append_token(result) for result in results
            ]
        if batch.phase == "restore":
            return self._settle_restore(results)
        return self._settle_prefill(batch, results, seconds, now)

    def observe_step(self, batch: Batch, *, seconds: float) -> None:
        """Take how long a settled batch kept the thread in all, with starting the decode step after it."""
        if batch.phase == "decode":
            rows = sum(map(len, batch.groups))
            self._queues[batch.model].pacer.observe_decode(
                seconds, rows=rows, alone=self.is_decode_only(batch)
            )

    def is_decode_only(self, batch: Batch) -> bool:
        """Whether the batch is a decode step with no prompt to be read beside it, so that its duration is
        that of a decode step.
        """
        queue = self._queues[batch.model]
        return batch.phase == "decode" and not queue.waiting and not queue.prefilling

    def _next_model(self, available_bytes: int) -> tuple[str, ModelQueue, list[Sequence]] | None:
        """Return whose turn it is and the prompts that it can go on with; a model that can only wait for room
        is passed over.
        """
        names = list(self._queues)
        if self._last_model in names:
            position = names.index(self._last_model)
            names = names[position + 1 :] + names[: position + 1]
        for name in names:
            queue = self._queues[name]
            candidates = self._prefill_candidates(queue, available_bytes)
            if candidates or queue.groups:
                self._last_model = name
                return name, queue, candidates
        # What holds a cache can always go on, unless the disk is to bring it, and when nothing holds one,
        # there is room.
        assert any(row.is_fetching for queue in self._queues.values() for row in queue.prefilling)
        return None

    def _prefill_candidates(self, queue: ModelQueue, available_bytes: int) -> list[Sequence]:
        candidates = [row for row in queue.prefilling if not row.is_fetching]
        if self._num_holding < self._max_rows:
            candidates += [
                row
                for row in queue.waiting
                if not row.waits_for_producer and self._can_admit(queue, row, available_bytes)
            ]
        return candidates

    @property
    def _num_holding(self) -> int:
        return sum(len(queue.prefilling) + queue.num_decoding for queue in self._queues.values())

    def _can_admit(self, queue: ModelQueue, row: Sequence, available_bytes: int) -> bool:
        """Whether there is a place, and memory, for one more prompt beside those that are half read."""
        num_holding = self._num_holding
        if num_holding >= self._max_rows:
            return False
        num_long = sum(other.num_uncomputed_tokens > _LONG_TOKENS for other in queue.prefilling)
        if row.num_uncomputed_tokens > _LONG_TOKENS and num_long >= _MAX_LONG_PROMPTS:
            return False
        promised = sum(
            other.num_tokens_to_prefill * queue.costs.kv_bytes_per_token for other in queue.prefilling
        )
        return (
            num_holding == 0
            or self.prompt_bytes(row.model, row.num_prompt_tokens) <= available_bytes - promised
        )

    def _prompt_batch(
        self, name: str, queue: ModelQueue, ranked: list[Sequence], available_bytes: int, *, is_overdue: bool
    ) -> Batch:
        self._last_phase = "prefill"
        # Those who waited for what the first has read are about to go on just where it is: together.
        followers = [row for row in ranked if row.needs_restore and row.producer is ranked[0]]
        if ranked[0].needs_restore or followers:
            return Batch(
                phase="restore", model=name, prompts=self._admit(queue, followers or ranked, available_bytes)
            )
        pacer, rows, context = queue.pacer, queue.num_decoding, ranked[0].num_computed_tokens
        final_pass_tokens = pacer.final_pass_tokens(
            rows=rows, is_overdue=is_overdue, is_burst=_is_burst(ranked, queue), context=context
        )
        prompts = select_prefill_batch(
            [row for row in ranked if not row.needs_restore],
            max_tokens=final_pass_tokens,
            max_added_padding_tokens=pacer.break_even_tokens(context=context),
            affordable_padding_tokens=queue.costs.affordable_padding_tokens,
        )
        num_tokens = sum(row.num_tokens_to_prefill for row in prompts)
        if len(prompts) == 1:
            chunk_tokens = pacer.chunk_tokens(
                rows=rows, num_waiting=len(ranked), is_overdue=is_overdue, context=context
            )
            ends_here = rows and num_tokens <= final_pass_tokens
            num_tokens = prompts[0].slice_tokens(num_tokens if ends_here else chunk_tokens)
        return Batch(
            phase="prefill", model=name, prompts=prompts, num_tokens=num_tokens, num_decoding_rows=rows
        )

    def _admit(self, queue: ModelQueue, ranked: list[Sequence], available_bytes: int) -> list[Sequence]:
        """Return the prompts to restore now: the first, and with it those that nothing keeps waiting."""
        most = _RESTORE_TOKENS if queue.groups else _RESTORE_TOKENS_ALONE
        begun: list[Sequence] = []
        for row in ranked:
            # Those that have begun just now may be about to read what this one needs, or have taken its
            # place.
            if not row.needs_restore or row.waits_for_producer:
                continue
            if begun and sum(other.num_prompt_tokens for other in begun) + row.num_prompt_tokens > most:
                break
            if row.state is SequenceState.WAITING:
                if begun and not self._can_admit(queue, row, available_bytes):
                    break
                queue.admit(row)
                for other in queue.waiting:
                    _wait_for_prefix_of(other, row)
            begun.append(row)
        return begun

    def _settle_restore(self, results: Iterable[RowResult]) -> list[RowUpdate]:
        updates = []
        for result in results:
            sequence = result.sequence
            if result.failure:
                updates.append(self._fail(result))
                continue
            sequence.is_fetching = sequence.needs_restore = result.is_fetching
            sequence.found = result.found
            sequence.num_cached_tokens = sequence.num_computed_tokens = result.found.num_cached
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
            self._fair.charge(sequence, num_tokens)
        self.num_prompt_tokens += batch.num_tokens
        scores = {result.sequence.sequence_id: list(result.prompt_scores) for result in results}
        updates = [
            _progress(sequence, now, scores.get(sequence.sequence_id, []))
            for sequence in batch.prompts
            if _is_progress_due(sequence, now) or sequence.sequence_id in scores
        ]
        if all(sequence.num_tokens_to_prefill == 0 for sequence in batch.prompts):
            self._start_decoding(queue, batch.prompts)
        return updates

    def _start_decoding(self, queue: ModelQueue, read: Many[Sequence]) -> None:
        """Let prompts that have been read decode; one that may have no token has come to its end."""
        for sequence in read:
            if not sequence.max_tokens:
                self._remove(sequence)
        if decoding := [sequence for sequence in read if sequence.max_tokens]:
            queue.start_decoding(decoding)

    @staticmethod
    def _observe_prefill(pacer: PrefillPacer, batch: Batch, seconds: float) -> None:
        # A look takes as long as it takes, and says nothing of how fast tokens are read.
        if not batch.num_tokens or batch.prompts[0].encodes_image(batch.num_tokens):
            return
        num_tokens = batch.num_tokens if len(batch.prompts) == 1 else padded_tokens(batch.prompts)
        context = max(prompt.num_computed_tokens for prompt in batch.prompts)
        pacer.observe_prefill(num_tokens, seconds, rows=batch.num_decoding_rows, context=context)

    def _append_token(self, result: RowResult) -> RowUpdate:
        sequence, token_id = result.sequence, result.token_id
        assert token_id is not None
        sequence.output_token_ids.append(token_id)
        self._fair.charge(sequence, 1)
        self.num_generated_tokens += 1
        reason: Literal["stop", "length"] | None = None
        if token_id in sequence.stop_token_ids:
            reason = "stop"
        elif len(sequence.output_token_ids) >= sequence.max_tokens:
            reason = "length"
        if reason:
            self._remove(sequence)
        return RowUpdate(
            sequence_id=sequence.sequence_id,
            token_ids=[token_id],
            scores=[result.score] if result.score else [],
            finish_reason=reason,
        )

    def _fail(self, result: RowResult) -> RowUpdate:
        sequence = result.sequence
        self._remove(sequence)
        assert result.failure is not None
        failure = failure_message(result.failure, sequence.request_id)
        return RowUpdate(sequence_id=sequence.sequence_id, failure=failure)

    def _remove(self, sequence: Sequence) -> None:
        self._queues[sequence.model].remove(sequence)
        self._by_id.pop(sequence.sequence_id, None)


def _is_burst(prompts: Iterable[Sequence], queue: ModelQueue) -> bool:
    """Whether all rows began to decode about when one of the prompts came of which nothing was read: they are
    one burst.
    """
    arrivals = [row.arrived_at for row in prompts if row.num_computed_tokens == row.num_cached_tokens]
    began = min((row.served_at for group in queue.groups for row in group), default=0.0)
    return bool(arrivals) and began >= min(arrivals) - _BURST_SECONDS


def _is_progress_due(sequence: Sequence, now: float) -> bool:
    return sequence.num_tokens_to_prefill == 0 or now - sequence.reported_at >= _PROGRESS_SECONDS


def _progress(sequence: Sequence, now: float, scores: list[Score]) -> RowUpdate:
    sequence.reported_at = now
    is_over = sequence.num_tokens_to_prefill == 0 and not sequence.max_tokens
    return RowUpdate(
        sequence_id=sequence.sequence_id,
        num_processed=sequence.num_computed_tokens,
        num_cached=sequence.num_cached_tokens,
        num_known=sequence.found.num_known,
        num_new=sequence.found.num_new,
        gone=sequence.found.gone,
        prompt_scores=scores,
        finish_reason="length" if is_over else None,
    )


def _wait_for_prefix_of(waiting: Sequence, producer: Sequence) -> None:
    """Let `waiting` wait for what `producer` is about to read, if that is a good part of its own prompt."""
    if waiting.waits_for_producer or "off" in (waiting.cache_mode, producer.cache_mode):
        return
    shared = common_tokens(waiting.prompt_token_ids, producer.prompt_token_ids, waiting.salts, producer.salts)
    # The last token of a prompt is never prefilled, neither here nor there.
    shared = min(shared, waiting.num_prompt_tokens - 1, producer.num_prompt_tokens - 1)
    if shared - producer.num_reusable_tokens >= _MIN_SHARED_TOKENS:
        waiting.wait_for(producer, shared)
