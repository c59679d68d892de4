"""What embeds: a loaded model that computes slices of jobs. MLX thread only."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import mlx.core as mx
import numpy as np

from mlxctl.engine.embedding.pooling import PooledText
from mlxctl.engine.embedding.queue import EmbeddingSlice
from mlxctl.ir import EmbeddingRecipe
from mlxctl.ir.tokens import Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """What came of a turn: the vectors of the texts that the slice completes, packed as float32; none while
    there is more to do.

    `num_tokens` is what was computed in it, in tokens through all layers.
    """

    vectors: bytes
    num_tokens: int


class Embedder(Protocol):
    """A model, and what it holds of slices that are begun.

    `reads_in_parts` says whether a slice may be a part of a text.
    """

    reads_in_parts: bool

    @property
    def bytes_for(self) -> Callable[[int], int]:
        """What tells how much memory a text of so many tokens takes while it is read."""
        ...

    def run(self, part: EmbeddingSlice, *, max_tokens: int) -> Computed:
        """Compute a slice, or about as much of it as `max_tokens` are; then the same slice has to come again."""
        ...

    def drop(self, job_id: int) -> None:
        """Free what a job holds."""
        ...


def pool_texts(recipe: EmbeddingRecipe, texts: Sequence[Tokens], states: mx.array) -> list[PooledText]:
    """Pool the states (texts, tokens, width) of texts that were padded behind."""
    pooled = [PooledText(recipe.pooling) for _ in texts]
    for row, text in enumerate(texts):
        pooled[row].add(states[row, : len(text)])
    return pooled


def padded(texts: Sequence[Tokens], *, width: int) -> mx.array:
    """Return the token ids of texts as rows (texts, width), the shorter ones padded behind."""
    rows: Any = np.zeros((len(texts), width), dtype=np.uint32)
    for row, text in zip(rows, texts, strict=True):
        row[: len(text)] = text
    return mx.array(rows)
