"""The interface of embedding models, and their padded batches. MLX thread only."""

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
    """The result of a turn.

    `vectors` are packed float32, of the texts that it completed; empty while there is more to compute.
    `num_tokens` is the work done, in tokens through all layers.
    """

    vectors: bytes
    num_tokens: int


class Embedder(Protocol):
    """Computes slices of jobs with one model.

    With `can_split_texts` a slice may be a part of a text.
    """

    can_split_texts: bool

    @property
    def bytes_for(self) -> Callable[[int], int]:
        """Return the function from a text's tokens to its memory.

        In bytes, while the text is computed.
        """
        ...

    def run(self, part: EmbeddingSlice, *, max_tokens: int) -> Computed:
        """Compute a slice, or about `max_tokens` of it.

        After a part, the same slice must follow.
        """
        ...

    def drop(self, job_id: int) -> None:
        """Free the state of a job."""
        ...


def pool_texts(recipe: EmbeddingRecipe, texts: Sequence[Tokens], states: mx.array) -> list[PooledText]:
    """Pool the states (texts, tokens, width) of texts padded at the end."""
    pooled = [PooledText(recipe.pooling) for _ in texts]
    for row, text in enumerate(texts):
        pooled[row].add(states[row, : len(text)])
    return pooled


def padded(texts: Sequence[Tokens], *, width: int) -> mx.array:
    """Return token ids as rows (texts, width), padded at the end."""
    rows: Any = np.zeros((len(texts), width), dtype=np.uint32)
    for row, text in zip(rows, texts, strict=True):
        row[: len(text)] = text
    return mx.array(rows)


def pair_segments(texts: Sequence[Tokens], *, width: int) -> mx.array:
    """Return the segments of pairs (texts, width): 1 for the second text.

    Other tokens have 0. A separator ends each of the two, so the last token appears between them too.
    """
    rows: Any = np.zeros((len(texts), width), dtype=np.uint32)
    for row, text in zip(rows, texts, strict=True):
        separator = text[len(text) - 1]
        first_end = next(place for place, token_id in enumerate(text) if token_id == separator)
        row[first_end + 1 : len(text)] = 1
    return mx.array(rows)
