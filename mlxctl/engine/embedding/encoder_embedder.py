"""A model whose tokens see the whole text: a slice is of whole texts, and what is too much for one turn goes
on in the next one, some layers further. MLX thread only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from mlxctl.engine.embedding.embedder import Computed, padded, pool_texts
from mlxctl.engine.embedding.encoders import Encoder, Masks
from mlxctl.engine.embedding.postprocessing import EmbeddingPostprocessor
from mlxctl.engine.embedding.queue import EmbeddingSlice
from mlxctl.ir import EmbeddingRecipe


@dataclass(slots=True, kw_only=True)
class _Pass:
    """Texts on their way through the layers."""

    states: mx.array
    masks: Masks
    num_layers: int = 0


class EncoderEmbedder:
    """Computes slices.

    One that took more than a turn holds its states until its last layer, or until its job is dropped.
    """

    reads_in_parts = False

    def __init__(
        self, model: Any, encoder: Encoder, recipe: EmbeddingRecipe, *, bytes_for: Callable[[int], int]
    ) -> None:
        """`bytes_for` gives the memory that a layer needs while it is computed for a text of so many tokens."""
        self._encoder = encoder
        self._recipe = recipe
        self._finisher = EmbeddingPostprocessor(recipe, model.dense)
        self.bytes_for = bytes_for
        self._begun: dict[int, _Pass] = {}

    def run(self, part: EmbeddingSlice, *, max_tokens: int) -> Computed:
        """Take the texts some layers further, at least one."""
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
        return _Pass(states=self._encoder.begin(padded(part.whole_texts, width=part.num_tokens)), masks=masks)
