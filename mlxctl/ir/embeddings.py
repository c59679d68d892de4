"""Texts as vectors: how a model makes them, what is asked for, and what comes out. Pure values."""

from dataclasses import dataclass
from typing import Literal

Pooling = Literal["cls", "max", "mean", "mean_sqrt_len", "weighted_mean", "last_token"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingRecipe:
    """How a model's hidden states become one vector.

    Several ways of `pooling` give their vectors one behind the other. `max_length` is in tokens. `prompt` stands before every text,
    which is in lower case where the model `is_uncased`.
    """

    pooling: tuple[Pooling, ...]
    is_normalized: bool
    max_length: int
    prompt: str = ""
    is_uncased: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingRequest:
    """Texts, or the token ids of texts, to be embedded. `dimensions` is None for vectors as long as the model makes them."""

    model: str
    inputs: tuple[str | tuple[int, ...], ...]
    dimensions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingResult:
    """A vector for each input, in order, as packed float32 in the machine's byte order."""

    vectors: tuple[bytes, ...]
    num_prompt_tokens: int
