"""Embeds with a decoder: tokens attend only to those before them.

MLX thread only. Texts are padded at the end, where padding affects no token. Long texts are computed in
slices, as prompts are.
"""

from typing import Any

import mlx.core as mx

from mlxctl.engine.decoding import caches as kv
from mlxctl.engine.decoding.caches import Caches
from mlxctl.engine.embedding.embedder import Computed, padded, pool_texts
from mlxctl.engine.embedding.pooling import PooledText
from mlxctl.engine.embedding.postprocessing import EmbeddingPostprocessor
from mlxctl.engine.embedding.queue import EmbeddingSlice
from mlxctl.ir import EmbeddingRecipe


class DecoderEmbedder:
    """Computes slices of jobs with a decoder.

    A text of several slices holds its caches until its last slice, or until it is dropped.
    """

    can_split_texts = True

    def __init__(self, model: Any, recipe: EmbeddingRecipe, *, kv_bytes_per_token: int) -> None:
        self._model = model
        self._recipe = recipe
        self._finisher = EmbeddingPostprocessor(recipe, model.dense, model.dense_norms)
        self._kv_bytes_per_token = kv_bytes_per_token
        self._begun: dict[int, tuple[Caches, PooledText]] = {}

    def bytes_for(self, num_tokens: int) -> int:
        """Return the bytes of a text's caches."""
        return num_tokens * self._kv_bytes_per_token

    def run(self, part: EmbeddingSlice, *, max_tokens: int) -> Computed:  # noqa: ARG002
        """Compute the slice, which fits a turn."""
        if part.start or not part.is_last_of_text:
            return Computed(vectors=self._forward(part), num_tokens=part.num_padded_tokens)
        texts = part.whole_texts
        pooled = pool_texts(self._recipe, texts, self._model.model(padded(texts, width=part.num_tokens)))
        vectors = self._finisher.packed(pooled, dimensions=part.job.dimensions)
        return Computed(vectors=vectors, num_tokens=part.num_padded_tokens)

    def drop(self, job_id: int) -> None:
        """Free the caches of a job's text."""
        self._begun.pop(job_id, None)

    def _forward(self, part: EmbeddingSlice) -> bytes:
        job, (place,) = part.job, part.places
        if not part.start:
            self._begun[job.job_id] = kv.new_caches(self._model), PooledText(self._recipe.pooling)
        caches, pooled = self._begun.pop(job.job_id)
        text = job.texts[place][part.start : part.start + part.num_tokens]
        pooled.add(self._model.model(padded([text], width=len(text)), cache=caches)[0])
        if part.is_last_of_text:
            return self._finisher.packed([pooled], dimensions=job.dimensions)
        kv.evaluate(caches)
        mx.eval(pooled.arrays())
        self._begun[job.job_id] = caches, pooled
        return b""
