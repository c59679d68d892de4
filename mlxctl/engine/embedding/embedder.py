"""A loaded embedding model: the layers of a text model without its head, and what is done to their states. MLX thread only.

A token sees only those before it, so texts are padded behind, where nothing of the padding can reach them, and a long text is read
in parts like any prompt.
"""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from mlxctl.engine import caches as kv
from mlxctl.engine.caches import Caches
from mlxctl.engine.embedding.pooling import PooledText, shortened
from mlxctl.engine.embedding.queue import EmbeddingSlice
from mlxctl.ir import EmbeddingRecipe
from mlxctl.prefix_cache.chunks import Tokens


class Embedder:
    """Computes slices. A text of which a part was read holds its cache until its last part, or until it is dropped."""

    def __init__(self, model: Any, recipe: EmbeddingRecipe) -> None:
        self._model = model
        self._recipe = recipe
        self._begun: dict[int, tuple[Caches, PooledText]] = {}

    def run(self, part: EmbeddingSlice) -> bytes:
        """Return the vectors of the texts that the slice completes, as packed float32."""
        if part.start or not part.is_last_of_text:
            return self._read_on(part)
        texts = [part.job.texts[place] for place in part.places]
        states = self._model.model(_padded(texts, width=part.num_tokens))
        pooled = [PooledText(self._recipe.pooling) for _ in texts]
        for row, text in enumerate(texts):
            pooled[row].add(states[row, : len(text)])
        return self._packed(pooled, part.job.dimensions)

    def drop(self, job_id: int) -> None:
        """Free what a job holds."""
        self._begun.pop(job_id, None)

    def _read_on(self, part: EmbeddingSlice) -> bytes:
        job, (place,) = part.job, part.places
        if not part.start:
            self._begun[job.job_id] = kv.new_caches(self._model), PooledText(self._recipe.pooling)
        caches, pooled = self._begun.pop(job.job_id)
        text = job.texts[place][part.start : part.start + part.num_tokens]
        pooled.add(self._model.model(_padded([text], width=len(text)), cache=caches)[0])
        if part.is_last_of_text:
            return self._packed([pooled], job.dimensions)
        kv.evaluate(caches)
        mx.eval(pooled.arrays())
        self._begun[job.job_id] = caches, pooled
        return b""

    def _packed(self, pooled: Sequence[PooledText], dimensions: int | None) -> bytes:
        is_normalized = self._recipe.is_normalized
        vectors = [shortened(text.vector(), dimensions=dimensions, is_normalized=is_normalized) for text in pooled]
        packed: bytes = np.array(mx.stack(vectors)).tobytes()
        return packed


def _padded(texts: Sequence[Tokens], *, width: int) -> mx.array:
    rows: Any = np.zeros((len(texts), width), dtype=np.uint32)
    for row, text in zip(rows, texts, strict=True):
        row[: len(text)] = text
    return mx.array(rows)
