"""Runs the scheduler's batches on one loaded model. MLX thread only; knows no policy."""

import contextlib
from collections.abc import Iterable
from collections.abc import Sequence as Many
from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np

from mlxctl.engine.failures import FOREIGN_ERRORS
from mlxctl.engine.generation import caches as kv
from mlxctl.engine.generation.caches import Caches
from mlxctl.engine.generation.decode_batch import DecodeBatch, StepInFlight, starts_late
from mlxctl.engine.generation.last_conversation import LastConversation
from mlxctl.engine.generation.prefill_state import CachePreallocator, PrefillState
from mlxctl.engine.generation.prompt_logprobs import score_prompt
from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.engine.scheduling.batch import Batch, RowResult
from mlxctl.engine.scheduling.prefill_batching import prefill_passes
from mlxctl.engine.scheduling.sequence import OUTPUT_RESERVE_TOKENS, Found, Sequence, cache_capacity
from mlxctl.engine.wire.messages import Score
from mlxctl.ir.tokens import Salt, Tokens, pack
from mlxctl.prefix_cache.cache import PrefixCache
from mlxctl.prefix_cache.disk.promotion import Promotion
from mlxctl.prefix_cache.disk.reader import FetchedRecord
from mlxctl.prefix_cache.entries import Chunk
from mlxctl.prefix_cache.packing import Record
from mlxctl.prefix_cache.policy import UNLIMITED_LIFETIME
from mlxctl.prefix_cache.restore_plan import RestorePlan

# Prompts with so many tokens left or fewer are usually read with others, in one batch.
_JOINED_SOON_TOKENS = 256
# After so many tokens of one prompt, MLX keeps many buffers that fit nothing else: each pass has a longer
# context, and other sizes.
_MANY_SIZES_TOKENS = 4096


class ModelRunner:
    """A model, the caches of prompts that are half read, and the decode batches.

    A step that raises costs only its own rows.

    `vocabulary_size` is the width of the model's logits; only one with `has_vision` takes sequences with images.
    """

    def __init__(self, weights: LoadedWeights, prefix_cache: PrefixCache) -> None:
        self._model = weights.model
        self._kv_format = weights.kv_format
        self._prefix_cache = prefix_cache
        self.vocabulary_size = weights.vocabulary_size
        self.has_vision = weights.has_vision
        self._prompts: dict[int, PrefillState] = {}
        # The last full chunk of each sequence that the prefix cache knows.
        self._known: dict[int, Chunk[Record] | None] = {}
        # Prompts whose known prefix is on its way from disk.
        self._promotions: dict[int, tuple[Sequence, Promotion]] = {}
        self._batches: list[DecodeBatch] = []
        self._built: list[DecodeBatch] = []
        self._starts_late = starts_late()
        self._last: LastConversation | None = None
        # A stream keeps its thread for ever, so there is one for all prompts.
        self._room_stream = mx.new_stream(mx.default_device())

    def run(self, batch: Batch) -> list[RowResult]:
        """Compute the batch and return what came back; a prefill that went well returns only scores, and who
        ends with it.
        """
        if batch.phase == "decode":
            return self._decode(batch.groups)
        if batch.phase == "restore":
            is_joined_soon = len(batch.prompts) > 1
            return [self._restore(sequence, is_joined_soon=is_joined_soon) for sequence in batch.prompts]
        if len(batch.prompts) > 1 and batch.num_tokens:
            return self._read_together(batch.prompts)
        return [failed for sequence in batch.prompts for failed in self._prefill(sequence, batch.num_tokens)]

    def look_up(self, tokens: Tokens, salts: Many[Salt]) -> Found:
        """Return how much of a prompt would be taken over from the prefix cache now; `salts` are its images."""
        return self._found(tokens, self._prefix_cache.plan(tokens, boundary_ids=frozenset(), salts=salts))

    def num_on_disk(self, tokens: Tokens, salts: Many[Salt]) -> int:
        """Return how much of a prompt could be brought back from disk."""
        return self._prefix_cache.num_on_disk(tokens, salts)

    def _found(self, tokens: Tokens, plan: RestorePlan) -> Found:
        gone = self._prefix_cache.eviction_reason(tokens, plan)
        num_new = len(tokens) - plan.num_matched if self._prefix_cache.is_cacheable(len(tokens)) else 0
        return Found(num_cached=plan.num_cached, num_known=plan.num_matched, gone=gone, num_new=num_new)

    def start_built(self) -> None:
        """Let the device begin with the decode step that was built last, for the rows that are still there."""
        built, self._built = self._built, []
        for batch in built:
            # What fails here fails again when the tokens are read, where it ends the rows.
            with contextlib.suppress(*FOREIGN_ERRORS):
                if batch.rows:
                    batch.start()

    def take_arrivals(self, arrivals: Iterable[FetchedRecord]) -> list[Sequence]:
        """Put into memory what has come from disk, and return the sequences that have all of theirs."""
        ready = []
        for arrival in arrivals:
            for sequence, promotion in list(self._promotions.values()):
                if promotion.fetch is arrival.fetch and promotion.take(arrival):
                    del self._promotions[sequence.sequence_id]
                    ready.append(sequence)
        return ready

    def drop(self, sequences: Iterable[Sequence]) -> None:
        """Free what these sequences hold, at once, after the prefix cache has taken what it can use of it."""
        gone = {sequence.sequence_id: sequence for sequence in sequences}
        for sequence_id, sequence in gone.items():
            if prompt := self._prompts.pop(sequence_id, None):
                self._remember(sequence, sequence.num_computed_tokens, prompt.caches, at_checkpoint=True)
        for batch in self._batches:
            if any(row.sequence_id in gone for row in batch.rows):
                self._remember_rows(batch, gone)
                self._keep_last(batch)
                self._shrink(batch, [row for row in batch.rows if row.sequence_id not in gone])
        self._batches = [batch for batch in self._batches if batch.rows]
        for sequence_id in gone:
            self._known.pop(sequence_id, None)
            if sequence_id in self._promotions:
                self._promotions.pop(sequence_id)[1].end()

    @property
    def kept_bytes(self) -> int:
        """What the working cache of the last conversation takes, besides what the prefix cache holds."""
        return self._last.num_bytes if self._last is not None else 0

    def release_working_caches(self) -> None:
        """Free the working cache of the last conversation."""
        self._last = None

    def _keep_last(self, batch: DecodeBatch) -> None:
        """Keep the cache of a row that was alone, if the prefix cache may have a copy of all of it without an
        end.
        """
        row = batch.rows[0]
        if len(batch.rows) > 1 or row.cache_mode != "full" or row.lifetime != UNLIMITED_LIFETIME:
            return
        tokens = row.prompt_token_ids + pack(row.output_token_ids[: row.length - row.num_prompt_tokens])
        if len(tokens) == row.length and self._prefix_cache.is_cacheable(len(tokens)):
            self._last = None
            with contextlib.suppress(*FOREIGN_ERRORS):
                self._last = LastConversation.of(tokens, batch.caches, row.salts)

    def _take_last(self, sequence: Sequence, plan: RestorePlan, found: Found) -> RowResult | None:
        """Let the sequence have the cache of the last conversation, if there is not more for it in the prefix
        cache.
        """
        num_tokens = (
            self._last.num_usable(sequence.prompt_token_ids, sequence.salts) if self._last is not None else 0
        )
        if (
            self._last is None
            or num_tokens < plan.num_cached
            or not self._prefix_cache.is_cacheable(num_tokens)
        ):
            return None
        self._known[sequence.sequence_id] = self._prefix_cache.record_reuse(
            plan, num_tokens, lifetime=sequence.lifetime
        )
        self._prompts[sequence.sequence_id] = self._half_read(sequence, self._last.take(num_tokens))
        self._last = None
        num_new = min(found.num_new, sequence.num_prompt_tokens - num_tokens)
        taken = replace(
            found, num_cached=num_tokens, num_known=max(found.num_known, num_tokens), num_new=num_new
        )
        return RowResult(sequence=sequence, found=taken, checkpoint_positions=plan.checkpoint_positions)

    def _shrink(self, batch: DecodeBatch, rows: list[Sequence]) -> None:
        if rows:
            batch.keep(rows)
        else:
            batch.rows = []

    def _remember_rows(self, batch: DecodeBatch, gone: dict[int, Sequence]) -> None:
        for place, row in enumerate(batch.rows):
            if row.sequence_id in gone:
                self._remember(
                    row,
                    row.length,
                    batch.caches,
                    row=place if len(batch.rows) > 1 else None,
                    at_checkpoint=True,
                )

    def _remember(
        self,
        sequence: Sequence,
        num_tokens: int,
        caches: Caches,
        *,
        row: int | None = None,
        at_checkpoint: bool,
    ) -> None:
        tokens = sequence.prompt_token_ids
        if sequence.cache_mode == "off":
            return
        if num_tokens > len(tokens) and sequence.cache_mode == "prefix":
            # A state after the answer is none after the prompt; that one was kept when the prompt had been
            # read.
            if self._prefix_cache.has_states:
                return
            num_tokens = len(tokens)
        if num_tokens > len(tokens):
            tokens = tokens + pack(sequence.output_token_ids[: num_tokens - len(tokens)])
        known = self._known.get(sequence.sequence_id)
        self._known[sequence.sequence_id] = self._prefix_cache.store(
            tokens,
            num_tokens,
            caches,
            row=row,
            last_chunk=known,
            at_checkpoint=at_checkpoint,
            lifetime=sequence.lifetime,
            salts=sequence.salts,
        )

    def _restore(self, sequence: Sequence, *, is_joined_soon: bool) -> RowResult:
        if sequence.cache_mode == "off":
            self._prompts[sequence.sequence_id] = self._half_read(
                sequence, kv.new_caches(self._model, self._kv_format)
            )
            return RowResult(sequence=sequence)
        tokens, salts = sequence.prompt_token_ids, sequence.salts
        plan = self._prefix_cache.plan(tokens, boundary_ids=sequence.stop_token_ids, salts=salts)
        found = self._found(tokens, plan)
        if taken := self._take_last(sequence, plan, found):
            return taken
        promotion = None if sequence.has_fetched else self._prefix_cache.promote(tokens, plan, salts)
        if promotion is not None:
            self._promotions[sequence.sequence_id] = (sequence, promotion)
            return RowResult(sequence=sequence, is_fetching=True)
        caches = kv.new_caches(self._model, self._kv_format)
        num_cached, self._known[sequence.sequence_id] = self._prefix_cache.restore(
            plan,
            caches,
            capacity=cache_capacity(sequence.num_prompt_tokens),
            lifetime=sequence.lifetime,
            # PERF: what is read together is copied into one batch, so that a copy of its own would be memory
            # touched for nothing.
            is_lazy=is_joined_soon and sequence.num_prompt_tokens - plan.num_cached <= _JOINED_SOON_TOKENS,
        )
        if num_cached < plan.num_cached:
            caches = kv.new_caches(self._model, self._kv_format)
        self._prompts[sequence.sequence_id] = self._half_read(sequence, caches)
        return RowResult(
            sequence=sequence,
            found=replace(found, num_cached=num_cached),
            checkpoint_positions=plan.checkpoint_positions,
        )

    def _half_read(self, sequence: Sequence, caches: Caches) -> PrefillState:
        if not sequence.images:
            return PrefillState(caches)
        token_ids = mx.array(np.frombuffer(sequence.prompt_token_ids, dtype=np.uint32))
        return PrefillState(caches, self._model.view(token_ids, sequence.images))

    def _prefill(self, sequence: Sequence, num_tokens: int) -> list[RowResult]:
        prompt = self._prompts[sequence.sequence_id]
        start = sequence.num_computed_tokens
        scores: list[Score] = []
        try:
            if num_tokens:
                scores = self._read(sequence, prompt, start, start + num_tokens)
        except FOREIGN_ERRORS as error:
            self._prompts.pop(sequence.sequence_id, None)
            return [RowResult(sequence=sequence, failure=f"reading the prompt failed: {error}")]
        end = start + num_tokens
        at_checkpoint = end in sequence.checkpoint_positions
        self._remember(sequence, end, prompt.caches, at_checkpoint=at_checkpoint)
        is_read = sequence.num_tokens_to_prefill == num_tokens
        if is_read and end - sequence.num_cached_tokens >= _MANY_SIZES_TOKENS:
            mx.clear_cache()
        if is_read and sequence.max_tokens:
            del self._prompts[sequence.sequence_id]
            self._batches.append(
                DecodeBatch.of_prefilled(
                    self._model,
                    vocabulary_size=self.vocabulary_size,
                    sequences=[sequence],
                    caches=prompt.caches,
                )
            )
        # One that ends here keeps its caches until it is dropped, which remembers them.
        is_news = scores or (is_read and not sequence.max_tokens)
        return [RowResult(sequence=sequence, prompt_scores=scores)] if is_news else []

    def _read(self, sequence: Sequence, prompt: PrefillState, start: int, end: int) -> list[Score]:
        scores: list[Score] = []
        # The logits are evaluated for scores only, so the output head costs nothing elsewhere.
        if sequence.scores_prompt:
            tokens, num_top = _numbers(sequence, start, end + 1), sequence.sampling.num_top_logprobs or 0
            scores = score_prompt(
                self._model, prompt.caches, tokens, num_top=num_top, vocabulary_size=self.vocabulary_size
            )
        elif prompt.view is None:
            self._model(mx.array(_numbers(sequence, start, end))[None], cache=prompt.caches)
        else:
            prompt.view.read(start, end, prompt.caches)
        kv.evaluate(prompt.caches)
        if end < sequence.num_prompt_tokens - 1:
            self._make_room(sequence, prompt)
        return scores

    def _make_room(self, sequence: Sequence, prompt: PrefillState) -> None:
        if prompt.room is None:
            enough = sequence.num_prompt_tokens + OUTPUT_RESERVE_TOKENS
            capacity = cache_capacity(sequence.num_prompt_tokens)
            prompt.room = CachePreallocator(prompt.caches, capacity, enough=enough, stream=self._room_stream)
        prompt.room.advance()

    def _read_together(self, prompts: Many[Sequence]) -> list[RowResult]:
        """Read all that is left of several prompts, which are one decode batch from then on."""
        reached = [sequence.num_computed_tokens for sequence in prompts]
        try:
            caches = kv.join(
                [self._prompts.pop(sequence.sequence_id).caches for sequence in prompts], [1] * len(prompts)
            )
            for ends in prefill_passes(prompts):
                kv.read(
                    self._model,
                    caches,
                    [_numbers(*each) for each in zip(prompts, reached, ends, strict=True)],
                )
                for row, (sequence, end) in enumerate(zip(prompts, ends, strict=True)):
                    self._remember(
                        sequence, end, caches, row=row, at_checkpoint=end in sequence.checkpoint_positions
                    )
                reached = list(ends)
        except FOREIGN_ERRORS as error:
            return [
                RowResult(sequence=sequence, failure=f"reading the prompt failed: {error}")
                for sequence in prompts
            ]
        self._batches.append(
            DecodeBatch.of_prefilled(
                self._model, vocabulary_size=self.vocabulary_size, sequences=prompts, caches=caches
            )
        )
        return []

    def _decode(self, groups: Many[Many[Sequence]]) -> list[RowResult]:
        results: list[RowResult] = []
        launched: list[tuple[DecodeBatch, StepInFlight]] = []
        for group in groups:
            parts = [batch for batch in self._batches if batch.rows[0] in group]
            try:
                batch = self._join(parts)
                launched.append((batch, batch.build()))
            except FOREIGN_ERRORS as error:
                results += self._fail(group, parts, error)
        self._built = [batch for batch, _ in launched]
        if not self._starts_late:
            self.start_built()
        for batch, in_flight in launched:
            try:
                results += in_flight.read()
            except FOREIGN_ERRORS as error:
                results += self._fail(batch.rows, [batch], error)
        return results

    def _join(self, parts: list[DecodeBatch]) -> DecodeBatch:
        if len(parts) == 1:
            return parts[0]
        joined = DecodeBatch.joined(parts)
        self._batches = [batch for batch in self._batches if batch not in parts] + [joined]
        return joined

    def _fail(self, rows: Many[Sequence], parts: Many[DecodeBatch], error: BaseException) -> list[RowResult]:
        # After a failed pass the caches of its rows are in no known state, so the rows end and the batch goes
        # with them.
        self._batches = [batch for batch in self._batches if batch not in parts]
        return [RowResult(sequence=row, failure=f"decoding failed: {error}") for row in rows]


def _numbers(sequence: Sequence, start: int, end: int) -> kv.Tokens:
    tokens: kv.Tokens = np.frombuffer(sequence.prompt_token_ids[start:end], dtype=np.uint32)
    return tokens


def describe_device() -> str:
    """Return the name of what MLX computes on."""
    info: dict[str, Any] = mx.device_info()
    return str(info.get("device_name") or info.get("architecture") or mx.default_device())
