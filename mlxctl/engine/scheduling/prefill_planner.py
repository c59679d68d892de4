"""Prefill planner: prompts to admit, restore and prefill next. Pure; MLX thread."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mlxctl.engine.scheduling.batch import Batch
from mlxctl.engine.scheduling.model_queue import ModelQueue
from mlxctl.engine.scheduling.prefill_batching import select_prefill_batch
from mlxctl.engine.scheduling.sequence import Sequence, SequenceState
from mlxctl.ir.tokens import common_tokens

# Bound of partially prefilled long prompts: each holds a cache, and short prompts may overtake them.
_MAX_LONG_PROMPTS = 4
_LONG_TOKENS = 1024
# Bound of prompt tokens restored in one step, since each may have to be copied; higher without decoding rows.
_RESTORE_TOKENS = 16_384
_RESTORE_TOKENS_ALONE = 65_536
# Shortest common prefix for which a prompt waits until another one has computed it.
_MIN_SHARED_TOKENS = 32
# Requests that arrive within this time are one burst: the first is being prefilled while the others arrive.
_BURST_SECONDS = 0.1
# A policy, not a measurement: the answer to a short prompt does not wait for one that is longer by more.
_BURST_LENGTHS = 4


@dataclass(frozen=True, slots=True)
class Places:
    """Free places by the row limit.

    Some of them are reserved for sequences that have one.
    """

    num_free: int
    num_reserved: int

    def is_free_for(self, row: Sequence) -> bool:
        """Whether a waiting sequence may get one."""
        return self.num_free > (0 if row.standing.has_place else self.num_reserved)


class PrefillPlanner:
    """Plans restore and prefill batches over the queues of all models.

    At most `max_rows` sequences hold a cache at a time.
    """

    def __init__(self, queues: Mapping[str, ModelQueue], *, max_rows: int) -> None:
        self._queues = queues
        self.max_rows = max_rows

    def candidates(self, queue: ModelQueue, available_bytes: int) -> list[Sequence]:
        """Return a model's prompts that can be prefilled or admitted."""
        places = self._places()
        if places.num_free <= 0 or not queue.waiting:
            return list(queue.prefilling)
        free_bytes = available_bytes - self.reserved_bytes
        return queue.prefilling + [
            row
            for row in queue.waiting
            if not (row.waits_for_producer or row.standing.is_paused)
            and self._can_admit(queue, row, free_bytes, places)
        ]

    def next_batch(
        self, model: str, queue: ModelQueue, ranked: list[Sequence], available_bytes: int, *, lateness: float
    ) -> Batch:
        """Return the next restore or prefill batch.

        `ranked` are the candidates, the first of which is part of it. `lateness` as in PrefillPacer.
        """
        # Prompts that waited for the first one's prefix are restored now, to be prefilled with it.
        followers = [row for row in ranked if row.prefill.needs_restore and row.producer is ranked[0]]
        if ranked[0].prefill.needs_restore or followers:
            prompts = self._admit(queue, followers or ranked, available_bytes)
            return Batch(phase="restore", model=model, prompts=prompts)
        rows = 0 if self.is_burst(queue, ranked) else queue.num_decoding
        if unfinished := ranked[0].unfinished_pass:
            prompts = [row for row in unfinished.prompts if row.unfinished_pass is unfinished]
            num_tokens, ends_in_one_turn = unfinished.num_tokens, False
        else:
            prompts, num_tokens, ends_in_one_turn = _next_pass(queue, ranked, rows, lateness=lateness)
        turn = queue.pacer.turn(rows=rows, num_waiting=len(ranked), lateness=lateness)
        return Batch(
            phase="prefill",
            model=model,
            prompts=prompts,
            num_tokens=num_tokens or sum(row.prefill.num_remaining_tokens for row in prompts),
            num_decoding_rows=rows,
            turn=turn if prompts[0].prefills_in_turns and not ends_in_one_turn else None,
        )

    def is_burst(self, queue: ModelQueue, prompts: Iterable[Sequence]) -> bool:
        """Whether the rows wait after their first token for some of `prompts`.

        These arrived before the first tokens, are no longer than one pass and about as long as the prompts of
        the rows, and not less important. A target gap excludes it.
        """
        rows = queue.decoding
        if not rows or queue.pacer.gap_seconds is not None:
            return False
        if any(row.was_preempted or row.num_sampled_tokens > 1 for row in rows):
            return False
        started = min(row.standing.served_at for row in rows)
        shortest = min(row.num_prompt_tokens - row.prefill.num_cached_tokens for row in rows)
        longest = min(queue.pacer.max_tokens, _BURST_LENGTHS * shortest)
        priority = min(row.priority for row in rows)
        return any(
            prompt.arrived_at <= started + _BURST_SECONDS
            and prompt.num_uncomputed_tokens <= longest
            and prompt.priority <= priority
            and not prompt.was_preempted
            for prompt in prompts
        )

    def short_of_memory(
        self, queue: ModelQueue, available_bytes: int, *, now: float, seconds: float
    ) -> list[Sequence]:
        """Return prompts that have waited longer than `seconds` only for memory.

        Uses the memory measured now; a prompt that fits now starts to wait anew.
        """
        places = self._places()
        # Likely growth of the rows keeps prompts waiting, but never refuses one.
        free_bytes = available_bytes - self._bytes_of_admitted
        for row in queue.waiting:
            # A preempted row has sent tokens already, so it waits without a time limit.
            is_short = (
                places.is_free_for(row)
                and not (row.waits_for_producer or row.was_preempted or row.standing.is_paused)
                and not (
                    self._num_with_cache == 0
                    or queue.prompt_bytes(row.num_prompt_tokens, row.max_tokens) <= free_bytes
                )
            )
            row.standing.note_memory(is_short=is_short, now=now)
        return [
            row
            for row in queue.waiting
            if (since := row.standing.memory_short_since) is not None and now - since > seconds
        ]

    def blocked(self, queue: ModelQueue, available_bytes: int) -> list[Sequence]:
        """Return the waiting prompts that lack only a place or memory."""
        places = self._places()
        free_bytes = available_bytes - self.reserved_bytes
        return [
            row
            for row in queue.waiting
            if not (row.waits_for_producer or row.standing.is_paused)
            and self._is_long_allowed(queue, row)
            and not (places.is_free_for(row) and self.fits(queue, row, free_bytes))
        ]

    def _places(self) -> Places:
        num_free = self.max_rows - self._num_with_cache
        num_reserved = sum(row.standing.has_place for queue in self._queues.values() for row in queue.waiting)
        return Places(num_free, num_reserved)

    @property
    def _num_with_cache(self) -> int:
        return sum(len(queue.admitted) + queue.num_decoding for queue in self._queues.values())

    def _can_admit(self, queue: ModelQueue, row: Sequence, free_bytes: int, places: Places) -> bool:
        """Whether row limit, long-prompt limit and memory allow one more prompt."""
        return (
            places.is_free_for(row)
            and self._is_long_allowed(queue, row)
            and self.fits(queue, row, free_bytes)
        )

    @staticmethod
    def _is_long_allowed(queue: ModelQueue, row: Sequence) -> bool:
        """Whether the limit of long prompts admits the prompt."""
        if row.num_uncomputed_tokens <= _LONG_TOKENS or row.was_preempted:
            return True
        # Longer prompts and those of lower precedence, which this one overtakes, hold no place against it.
        num_long = sum(
            _LONG_TOKENS < other.num_uncomputed_tokens <= row.num_uncomputed_tokens
            and other.priority <= row.priority
            for other in queue.admitted
        )
        return num_long < _MAX_LONG_PROMPTS

    def fits(self, queue: ModelQueue, row: Sequence, free_bytes: int) -> bool:
        """Whether prompt and likely answer fit beside the growth of others.

        Alone, a prompt always fits.
        """
        if self._num_with_cache == 0:
            return True
        return not row.standing.waits_for_end and queue.likely_bytes(row) <= free_bytes

    @property
    def reserved_bytes(self) -> int:
        """Bytes by which all caches are likely to grow, over all models."""
        return sum(queue.reserved_bytes for queue in self._queues.values())

    @property
    def _bytes_of_admitted(self) -> int:
        """Bytes that admitted prompts will need for sure."""
        return sum(
            queue.costs.cache_bytes(row.num_prompt_tokens)
            - queue.costs.cache_bytes(row.prefill.num_computed_tokens)
            for queue in self._queues.values()
            for row in queue.admitted
        )

    def _admit(self, queue: ModelQueue, ranked: list[Sequence], available_bytes: int) -> list[Sequence]:
        """Admit waiting prompts; return the prompts to restore now.

        These include at least the first of `ranked`.
        """
        max_tokens = _RESTORE_TOKENS if queue.groups else _RESTORE_TOKENS_ALONE
        admitted: list[Sequence] = []
        num_tokens = 0
        for row in ranked:
            # A prompt admitted in this loop may have become the producer of this one, or used its slot.
            if not row.prefill.needs_restore or row.waits_for_producer:
                continue
            if admitted and num_tokens + row.num_prompt_tokens > max_tokens:
                break
            if row.state is SequenceState.WAITING:
                free_bytes = available_bytes - self.reserved_bytes
                if admitted and not self._can_admit(queue, row, free_bytes, self._places()):
                    break
                queue.admit(row)
                for other in queue.waiting:
                    wait_for_shared_prefix(other, row)
            admitted.append(row)
            num_tokens += row.num_prompt_tokens
        return admitted


def _next_pass(
    queue: ModelQueue, ranked: Iterable[Sequence], rows: int, *, lateness: float
) -> tuple[list[Sequence], int, bool]:
    """Return the next pass: prompts, tokens, whether it takes one turn.

    0 tokens are all that remain.
    """
    candidates = [row for row in ranked if not row.prefill.needs_restore]
    pacer, memory, context = queue.pacer, queue.costs.pass_memory, candidates[0].prefill.num_computed_tokens
    batch_tokens = pacer.batch_tokens(rows=rows, lateness=lateness, context=context)
    prompts = select_prefill_batch(
        candidates,
        max_tokens=batch_tokens,
        max_added_padding_tokens=pacer.break_even_tokens(rows=rows, context=context),
        affordable_padding_tokens=queue.costs.affordable_prompt_padding_tokens,
        memory=memory,
    )
    if len(prompts) > 1:
        return prompts, 0, bool(rows)
    (prompt,) = prompts
    prefill = prompt.prefill
    if (
        rows
        and prefill.num_remaining_tokens <= batch_tokens
        # The end of a long prompt takes turns like the rest of it.
        and not prefill.has_begun
        and memory.allows(prefill.num_remaining_tokens, end=prefill.end)
    ):
        return prompts, prompt.pass_tokens(prefill.num_remaining_tokens), True
    num_tokens = pacer.part_tokens(
        prefill.num_tokens_to_checkpoint,
        rows=rows,
        num_waiting=len(candidates),
        lateness=lateness,
        context=context,
    )
    return prompts, prompt.pass_tokens(num_tokens), False


def wait_for_shared_prefix(waiting: Sequence, producer: Sequence) -> None:
    """Let a prompt wait for a long prefix that `producer` will compute."""
    if (
        waiting.waits_for_producer
        or waiting.was_preempted
        or waiting.cache_mode == "off"
        or not producer.stores_prefix
    ):
        return
    shared = common_tokens(waiting.prompt_token_ids, producer.prompt_token_ids, waiting.salts, producer.salts)
    # The last token of a prompt is never prefilled.
    shared = min(shared, waiting.num_prompt_tokens - 1, producer.num_prompt_tokens - 1)
    if shared - producer.num_reusable_tokens >= _MIN_SHARED_TOKENS:
        waiting.wait_for(producer, shared)
