"""Embeds with an encoder: tokens attend to the whole text.

MLX thread only. A slice holds whole texts; one that takes too long is continued with the next layers in the
next turn.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from mlxctl.engine.embedding.embedder import Computed, padded, pair_segments, pool_texts
from mlxctl.engine.embedding.encoders import Encoder, Masks
from mlxctl.engine.embedding.postprocessing import EmbeddingPostprocessor
from mlxctl.engine.embedding.queue import EmbeddingSlice
from mlxctl.ir import EmbeddingRecipe


@dataclass(slots=True, kw_only=True)
class _Pass:
    """The states of texts between two layers."""

    states: mx.array
    masks: Masks
    num_layers: int = 0


class EncoderEmbedder:
    """Computes slices of jobs with an encoder.

    A slice of several turns holds its states until its last layer, or until its job is dropped.
    """

    can_split_texts = False

    def __init__(
        self, model: Any, encoder: Encoder, recipe: EmbeddingRecipe, *, bytes_for: Callable[[int], int]
    ) -> None:
        """`bytes_for` returns one layer's memory for a text of n tokens."""
        self._encoder = encoder
        self._recipe = recipe
        self._finisher = EmbeddingPostprocessor(recipe, model.dense, model.dense_norms)
        self.bytes_for = bytes_for
        self._begun: dict[int, _Pass] = {}

    def run(self, part: EmbeddingSlice, *, max_tokens: int) -> Computed:
        """Compute the next layers of the slice, at least one."""
        job_id, num_layers = part.job.job_id, self._encoder.num_layers
        begun = self._begun.pop(job_id, None) or self._begin(part)
        num_now = max(
            1, min(num_layers - begun.num_layers, num_layers * max_tokens // part.num_padded_tokens)
        )
        for index in range(begun.num_layers, begun.num_layers + num_now):
            begun.states = self._encoder.layer(index, begun.states, begun.masks)
        begun.num_layers += num_now
        num_tokens = -(-part.num_padded_tokens * num_now // num_layers)
        if begun.num_layers < num_layers:
            mx.eval(begun.states)
            self._begun[job_id] = begun
            return Computed(vectors=b"", num_tokens=num_tokens)
        pooled = pool_texts(self._recipe, part.whole_texts, self._encoder.end(begun.states))
        return Computed(
            vectors=self._finisher.packed(pooled, dimensions=part.job.dimensions), num_tokens=num_tokens
        )

    def drop(self, job_id: int) -> None:
        """Free the states of a job's texts."""
        self._begun.pop(job_id, None)

    def _begin(self, part: EmbeddingSlice) -> _Pass:
        lengths = [len(text) for text in part.whole_texts]
        masks = Masks(lengths, width=part.num_tokens, reach=self._encoder.reach)
        token_ids = padded(part.whole_texts, width=part.num_tokens)
        segments = (
            pair_segments(part.whole_texts, width=part.num_tokens) if self._recipe.scores_pairs else None
        )
        return _Pass(states=self._encoder.begin(token_ids, segments), masks=masks)
