"""Runs the scheduler's batches on one loaded model.

MLX thread only; knows no policy.
"""

import contextlib
from collections import abc
from collections.abc import Iterable
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np

from mlxctl.engine.backend import Backend
from mlxctl.engine.decoding import cache_room as room
from mlxctl.engine.decoding import caches as kv
from mlxctl.engine.decoding.decode_batch import DecodeBatch, StepInFlight
from mlxctl.engine.generation.joint_pass import JointPass
from mlxctl.engine.generation.prefill_pass import PrefillPass
from mlxctl.engine.generation.prefill_state import PrefillState
from mlxctl.engine.generation.prefix_coordinator import PrefixCoordinator
from mlxctl.engine.generation.prompt_scores import score_prompt
from mlxctl.engine.generation.step_memory import StepMemory
from mlxctl.engine.host.failures import FOREIGN_ERRORS
from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.engine.scheduling.batch import Batch, RowResult, TurnLimit
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.engine.speculation.draft_steps import DraftSteps, VerifiedStep
from mlxctl.engine.speculation.policy.drafter import MAX_DRAFT_TOKENS
from mlxctl.engine.vision.language_model import VisionLanguageModel
from mlxctl.engine.wire.reports import Score
from mlxctl.ir import ProcessedImage

if TYPE_CHECKING:
    from mlxctl.engine.lora.lora_adapters import LoraAdapters

# From this length of a prompt on, MLX keeps many buffers that are never used again: each pass has a longer
# context, and so buffers of other sizes.
_MANY_SIZES_TOKENS = 4096


class ModelRunner:
    """A model with the prefill states and decode batches of its sequences.

    A step that raises costs only its own rows. `vocabulary_size` is the width of the model's logits.
    """

    def __init__(
        self,
        weights: LoadedWeights,
        prefixes: PrefixCoordinator,
        backend: Backend,
        lora: "LoraAdapters",
        drafts: DraftSteps,
        memory: StepMemory,
        *,
        allocation_stream: mx.Stream,
    ) -> None:
        """`allocation_stream` allocates the caches of prompts; all models share one."""
        self._model = weights.model
        self._is_sharded = weights.is_sharded
        self._backend = backend
        self.prefixes = prefixes
        self.lora = lora
        self.drafts = drafts
        self._memory = memory
        self.vocabulary_size = weights.vocabulary_size
        self._states: dict[int, PrefillState] = {}
        self._batches: list[DecodeBatch] = []
        self._built: list[DecodeBatch] = []
        self._allocation_stream = allocation_stream

    def takes(self, image: ProcessedImage) -> bool:
        """Whether the model has an encoder for an image, or for audio."""
        return isinstance(self._model, VisionLanguageModel) and self._model.takes(image)

    def needed_bytes(self, batch: Batch) -> int:
        """Return what a batch allocates while it runs.

        0 for a decode step in which no cache grows.
        """
        match batch.phase:
            case "decode":
                return self._memory.decode_bytes(self._parts(group) for group in batch.groups)
            case "restore":
                return self._memory.restore_bytes(batch.prompts)
            case "prefill":
                states = [self._states[sequence.sequence_id] for sequence in batch.prompts]
                return self._memory.prefill_bytes(states, batch.num_tokens, self._batches)
        return 0

    def run(self, batch: Batch) -> list[RowResult]:
        """Compute a batch and return results by row.

        Prefill returns results only for prompt log-probabilities, failures and sequences without output.
        """
        match batch.phase:
            case "decode":
                return self._decode(batch.groups)
            case "read":
                return self._read([row for group in batch.groups for row in group])
            case "preempt":
                self.drop(batch.prompts)
                rows = [row for group in batch.groups for row in group]
                results = self._preempt(rows, frees=batch.reason == "memory")
                return results + [RowResult(sequence=prompt) for prompt in batch.prompts]
            case "restore":
                return [self._restore(row, is_batched=len(batch.prompts) > 1) for row in batch.prompts]
        states = [self._states[sequence.sequence_id] for sequence in batch.prompts]
        if isinstance(states[0].unfinished_pass, JointPass) or (len(states) > 1 and batch.num_tokens):
            return self._prefill_together(states, batch.turn)
        return [
            result for state in states for result in self._prefill(state, batch.num_tokens, turn=batch.turn)
        ]

    def start_built(self) -> None:
        """Start the decode steps that were built last, for the remaining rows.

        This ends the clock of the step.
        """
        self.drafts.resume()
        self._start_built()
        self.drafts.end()

    def _start_built(self) -> None:
        built, self._built = self._built, []
        for batch in built:
            # What fails here fails again when the tokens are read, which ends the rows.
            with contextlib.suppress(*FOREIGN_ERRORS):
                if batch.rows:
                    batch.start()

    def _start_first_layers(self) -> None:
        # In a pipeline the first layer waits for other ranks, which have not begun the step yet.
        for batch in self._built if not self._is_sharded else ():
            with contextlib.suppress(*FOREIGN_ERRORS):
                batch.start_first_layer()

    def drop(self, sequences: Iterable[Sequence]) -> None:
        """Free what these sequences hold.

        The prefix cache first stores what it can use of it.
        """
        if self._is_sharded:
            # All ranks compute passes in the order in which they were built.
            self._start_built()
        dropped = {sequence.sequence_id for sequence in sequences}
        for sequence_id in dropped:
            state = self._states.get(sequence_id)
            # Caches in the middle of a pass hold no state of any position; what came before it is stored.
            if state is not None and state.caches is not None and state.unfinished_pass is None:
                self.prefixes.store(state, state.sequence.prefill.num_computed_tokens, state.caches)
        for batch in self._batches:
            if any(row.sequence_id in dropped for row in batch.rows):
                self._drop_rows(batch, dropped)
        self._batches = [batch for batch in self._batches if batch.rows]
        self.drafts.drop(dropped)
        for sequence_id in dropped:
            if state := self._states.pop(sequence_id, None):
                state.unfinished_pass = None
                self.prefixes.drop(state)

    def _preempt(self, rows: abc.Sequence[Sequence], *, frees: bool) -> list[RowResult]:
        """Read tokens in flight; take the rows out of their batches.

        Their caches are kept, unless their memory is needed (`frees`).
        """
        results: list[RowResult] = []
        for batch in list(self._batches):
            if leaving := [row for row in batch.rows if row in rows]:
                try:
                    results += self._take_out(batch, leaving, frees=frees)
                except FOREIGN_ERRORS as error:
                    results += self._fail(list(batch.rows), [batch], error)
        self._batches = [batch for batch in self._batches if batch.rows]
        return results

    def _take_out(self, batch: DecodeBatch, rows: abc.Sequence[Sequence], *, frees: bool) -> list[RowResult]:
        results = batch.read_in_flight(rows)
        staying = [row for row in batch.rows if row not in rows]
        for index, row in enumerate(batch.rows):
            if row in rows:
                is_alone = len(batch.rows) == 1
                state = self._states[row.sequence_id]
                self.prefixes.store(state, row.length, batch.caches, row=None if is_alone else index)
                if not frees:
                    self.prefixes.keep_preempted(
                        state, batch.caches if is_alone else kv.extract_row(batch.caches, index)
                    )
        if staying:
            batch.keep(staying, frees=frees)
        else:
            batch.rows = []
        return results

    def _drop_rows(self, batch: DecodeBatch, dropped: set[int]) -> None:
        is_alone = len(batch.rows) == 1
        for index, row in enumerate(batch.rows):
            if row.sequence_id in dropped:
                state = self._states[row.sequence_id]
                self.prefixes.store(state, row.length, batch.caches, row=None if is_alone else index)
        if is_alone:
            self.prefixes.keep_last(self._states[batch.rows[0].sequence_id], batch.caches)
        if staying := [row for row in batch.rows if row.sequence_id not in dropped]:
            batch.keep(staying, frees=self._memory.is_short_for(batch))
        else:
            batch.rows = []

    def _restore(self, sequence: Sequence, *, is_batched: bool) -> RowResult:
        state = self._states.setdefault(sequence.sequence_id, PrefillState(sequence))
        result = self.prefixes.restore(state, capacity=self._memory.capacity(sequence), is_batched=is_batched)
        if sequence.images and state.caches is not None:
            token_ids = mx.array(np.frombuffer(sequence.prompt_token_ids, dtype=np.uint32))
            state.view = self._model.view(token_ids, sequence.images)
        return result

    def _prefill(self, state: PrefillState, num_tokens: int, *, turn: TurnLimit | None) -> list[RowResult]:
        sequence = state.sequence
        start = sequence.prefill.num_computed_tokens
        end = start + num_tokens
        assert state.caches is not None, "a prompt is restored first"
        scores: list[Score] | None = []
        try:
            if num_tokens and state.unfinished_pass is None:
                room.grow(state.caches, num_tokens, step=room.STEP_TOKENS)
            if num_tokens:
                scores = self._compute(state, state.caches, start, end, turn)
        except FOREIGN_ERRORS as error:
            state.caches = state.unfinished_pass = None
            return [_failed_prefill(sequence, error)]
        if scores is None:
            return [RowResult(sequence=sequence, is_unfinished=True)]
        self.prefixes.store(
            state, end, state.caches, at_checkpoint=end in sequence.prefill.checkpoint_positions
        )
        is_done = sequence.prefill.num_remaining_tokens == num_tokens
        if is_done and end - sequence.prefill.num_cached_tokens >= _MANY_SIZES_TOKENS:
            mx.clear_cache()
        if is_done and sequence.max_tokens:
            self._start_decoding([sequence], state.take_caches())
        # A sequence without output keeps its caches until it is dropped, which stores them.
        is_over = is_done and not sequence.max_tokens
        return [RowResult(sequence=sequence, prompt_scores=scores)] if scores or is_over else []

    def _compute(
        self, state: PrefillState, caches: kv.Caches, start: int, end: int, turn: TurnLimit | None
    ) -> list[Score] | None:
        """Begin or continue a pass; return the scores of its tokens.

        None if it is still unfinished after its `turn`.
        """
        sequence = state.sequence
        scores: list[Score] = []
        if sequence.computes_prompt_scores:
            with self.lora.of_rows([sequence]):
                scores = score_prompt(self._model, state, caches, start, end, self.vocabulary_size)
            states = self.drafts.take_states()
        else:
            begun = state.unfinished_pass or self._begin_pass(state, caches, start, end)
            assert isinstance(begun, PrefillPass)
            encoded = begun.encode_seconds
            state.unfinished_pass = None if begun.run(turn) else begun
            if sequence.images:
                sequence.statistics.add_vision_seconds(begun.encode_seconds - encoded)
            if state.unfinished_pass is not None:
                return None
            states = begun.states
        self.drafts.add_prefill([sequence], [start], [end], states)
        capacity = self._memory.capacity(sequence)
        if end < sequence.num_prompt_tokens - 1 and self._memory.affords_room(capacity):
            state.preallocate(capacity, self._allocation_stream, self._backend.new_memory_bytes_per_second)
        return scores

    def _begin_pass(self, state: PrefillState, caches: kv.Caches, start: int, end: int) -> PrefillPass:
        """Build a pass.

        Its logits are never evaluated, so the output head costs nothing.
        """
        sequence, encoder_layers = state.sequence, []
        with self.lora.of_rows([sequence]):
            if state.view is None:
                kv.begin_forward(self._model, caches, [state.tokens(start, end)])
            else:
                encoder_layers = state.view.forward(start, end, caches)
        return PrefillPass(caches, states=self.drafts.take_states(), encoder_layers=encoder_layers)

    def _prefill_together(
        self, states: abc.Sequence[PrefillState], turn: TurnLimit | None
    ) -> list[RowResult]:
        """Compute the rest of several prompts in one batch, for a turn.

        They are one decode batch from then on.
        """
        joint = states[0].unfinished_pass
        try:
            if not isinstance(joint, JointPass):
                joint = JointPass(
                    self._model, states, lora=self.lora, drafts=self.drafts, prefixes=self.prefixes
                )
            is_done = joint.run(turn)
        except FOREIGN_ERRORS as error:
            return [_failed_prefill(state.sequence, error) for state in states]
        if not is_done:
            return [RowResult(sequence=state.sequence, is_unfinished=True) for state in states]
        for state in states:
            state.unfinished_pass = None
        batch = self._start_decoding(joint.sequences, joint.caches)
        staying = [state.sequence for state in states]
        if len(staying) < len(batch.rows):
            batch.keep(staying)
        return []

    def _start_decoding(self, sequences: abc.Sequence[Sequence], caches: kv.Caches) -> DecodeBatch:
        batch = DecodeBatch.of_prefilled(
            self._model,
            vocabulary_size=self.vocabulary_size,
            sequences=sequences,
            caches=caches,
            backend=self._backend,
        )
        self._batches.append(batch)
        return batch

    def _decode(self, groups: abc.Sequence[abc.Sequence[Sequence]]) -> list[RowResult]:
        results: list[RowResult] = []
        launched: list[tuple[DecodeBatch, StepInFlight | VerifiedStep]] = []
        self.drafts.begin(len(groups))
        for group in groups:
            parts = self._parts(group)
            try:
                batch = self._join(parts)
                batch.make_room(1 + MAX_DRAFT_TOKENS, step=self._memory.step_tokens)
                with self.lora.of_rows(batch.rows):
                    if (step := self.drafts.step(batch)) is None:
                        step = batch.build()
                        self._built.append(batch)
                        self.drafts.add_decoded(batch.rows)
                    launched.append((batch, step))
            except FOREIGN_ERRORS as error:
                results += self._fail(group, parts, error)
        if not self._backend.starts_decode_late:
            self._start_built()
        for batch, in_flight in launched:
            try:
                results += in_flight.read()
            except FOREIGN_ERRORS as error:
                results += self._fail(batch.rows, [batch], error)
        if self._backend.starts_decode_late:
            self._start_first_layers()
        self.drafts.pause()
        return results

    def _parts(self, group: abc.Sequence[Sequence]) -> list[DecodeBatch]:
        """Return the batches of a group's rows."""
        return [batch for batch in self._batches if batch.rows[0] in group]

    def _read(self, rows: abc.Sequence[Sequence]) -> list[RowResult]:
        """Wait for the tokens in flight of these rows, without another step."""
        results: list[RowResult] = []
        for batch in list(self._batches):
            if wanted := [row for row in batch.rows if row in rows]:
                try:
                    results += batch.read_in_flight(wanted)
                except FOREIGN_ERRORS as error:
                    results += self._fail(list(batch.rows), [batch], error)
        return results

    def _join(self, parts: list[DecodeBatch]) -> DecodeBatch:
        if len(parts) == 1:
            return parts[0]
        joined = DecodeBatch.joined(
            parts, spare_bytes=self._memory.spare_bytes(), piece_bytes=self._memory.piece_bytes()
        )
        self._batches = [batch for batch in self._batches if batch not in parts] + [joined]
        return joined

    def _fail(
        self, rows: abc.Sequence[Sequence], parts: abc.Sequence[DecodeBatch], error: BaseException
    ) -> list[RowResult]:
        # After a failed pass the state of its caches is unknown, so its rows end and the batch is dropped.
        self._batches = [batch for batch in self._batches if batch not in parts]
        return [RowResult(sequence=row, failure=f"decoding failed: {error}") for row in rows]


def _failed_prefill(sequence: Sequence, error: BaseException) -> RowResult:
    return RowResult(sequence=sequence, failure=f"prefill failed: {error}")
