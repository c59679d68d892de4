"""Runs the scheduler's batches on one loaded model. MLX thread only; knows no policy."""

from collections.abc import Iterable
from collections.abc import Sequence as Many
from typing import Any

import mlx.core as mx

from mlxctl.engine import caches as kv
from mlxctl.engine.caches import Caches
from mlxctl.engine.decode_batch import DecodeBatch, StepInFlight
from mlxctl.engine.loading import LoadedWeights
from mlxctl.engine.scheduler import Batch, RowResult
from mlxctl.engine.sequence import Sequence


class ModelRunner:
    """A model, the caches of prompts that are half read, and the decode batches. A step that raises costs only its own rows."""

    def __init__(self, weights: LoadedWeights) -> None:
        self._model = weights.model
        self._vocabulary_size = weights.vocabulary_size
        self._prompts: dict[int, Caches] = {}
        self._batches: list[DecodeBatch] = []

    def run(self, batch: Batch) -> list[RowResult]:
        """Compute the batch and return what came back; a prefill that went well returns nothing."""
        if batch.phase == "decode":
            return self._decode(batch.groups)
        assert batch.sequence is not None
        return self._prefill(batch.sequence, batch.num_tokens)

    def drop(self, sequences: Iterable[Sequence]) -> None:
        """Free what these sequences hold, at once."""
        gone = {sequence.sequence_id for sequence in sequences}
        for sequence_id in gone:
            self._prompts.pop(sequence_id, None)
        for batch in self._batches:
            if any(row.sequence_id in gone for row in batch.rows):
                self._shrink(batch, [row for row in batch.rows if row.sequence_id not in gone])
        self._batches = [batch for batch in self._batches if batch.rows]

    def _shrink(self, batch: DecodeBatch, rows: list[Sequence]) -> None:
        if rows:
            batch.keep(rows)
        else:
            batch.rows = []

    def _prefill(self, sequence: Sequence, num_tokens: int) -> list[RowResult]:
        try:
            prompt = self._prompts.setdefault(sequence.sequence_id, [])
            if not prompt:
                prompt.extend(kv.new_caches(self._model))
            start = sequence.num_computed_tokens
            if num_tokens:
                chunk = mx.array(sequence.prompt_token_ids[start : start + num_tokens], dtype=mx.uint32)
                # The logits are never evaluated, so the output head costs nothing here.
                self._model(chunk[None], cache=prompt)
                kv.evaluate(prompt)
        except (RuntimeError, ValueError, MemoryError) as error:
            self._prompts.pop(sequence.sequence_id, None)
            return [RowResult(sequence=sequence, failure=f"reading the prompt failed: {error}")]
        if sequence.num_tokens_to_prefill == num_tokens:
            caches = self._prompts.pop(sequence.sequence_id)
            self._batches.append(
                DecodeBatch.of_prefilled(self._model, vocabulary_size=self._vocabulary_size, sequence=sequence, caches=caches)
            )
        return []

    def _decode(self, groups: Many[Many[Sequence]]) -> list[RowResult]:
        results: list[RowResult] = []
        launched: list[tuple[DecodeBatch, StepInFlight]] = []
        for group in groups:
            parts = [batch for batch in self._batches if batch.rows[0] in group]
            try:
                batch = self._join(parts)
                launched.append((batch, batch.launch()))
            except (RuntimeError, ValueError, MemoryError) as error:
                results += self._fail(group, parts, error)
        for batch, in_flight in launched:
            try:
                results += in_flight.read()
            except (RuntimeError, MemoryError) as error:
                results += self._fail(batch.rows, [batch], error)
        return results

    def _join(self, parts: list[DecodeBatch]) -> DecodeBatch:
        if len(parts) == 1:
            return parts[0]
        joined = DecodeBatch.joined(parts)
        self._batches = [batch for batch in self._batches if batch not in parts] + [joined]
        return joined

    def _fail(self, rows: Many[Sequence], parts: Many[DecodeBatch], error: BaseException) -> list[RowResult]:
        # After a failed pass the caches of its rows are in no known state, so the rows end and the batch goes with them.
        self._batches = [batch for batch in self._batches if batch not in parts]
        return [RowResult(sequence=row, failure=f"decoding failed: {error}") for row in rows]


def describe_device() -> str:
    """Return the name of what MLX computes on."""
    info: dict[str, Any] = mx.device_info()
    return str(info.get("device_name") or info.get("architecture") or mx.default_device())
