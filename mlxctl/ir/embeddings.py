"""Texts as vectors: how a model makes them, what is asked for, and what comes out. Pure values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Pooling = Literal["cls", "max", "mean", "mean_sqrt_len", "weighted_mean", "last_token"]
EncoderKind = Literal["bert", "xlm_roberta", "modernbert", "gemma3_text"]
"""The architectures here whose tokens see those behind them, too."""
Activation = Literal["identity", "tanh", "relu", "gelu", "sigmoid", "silu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseLayer:
    """A layer that a pooled vector goes through.

    `file` holds its weights, in the model's directory; without one they lie among the others, as `dense.0`,
    `dense.1` and so on.
    """

    file: str | None = None
    num_inputs: int
    num_outputs: int
    has_bias: bool
    activation: Activation


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingRecipe:
    """How a model's hidden states become one vector.

    Without an `encoder`, a token sees only those before it. Several ways of `pooling` give their vectors one
    behind the other, which go through the layers in `dense`. `max_length` is in tokens. `prompt` stands
    before every text, unless the caller names one of `prompts` by its key; the text is in lower case where
    the model `is_uncased`.
    """

    pooling: tuple[Pooling, ...]
    is_normalized: bool
    max_length: int
    encoder: EncoderKind | None = None
    dense: tuple[DenseLayer, ...] = ()
    prompt: str = ""
    prompts: Mapping[str, str] = field(default_factory=dict)
    is_uncased: bool = False

    def num_dimensions(self, width: int) -> int:
        """Return how long a vector is, made from states of `width` numbers."""
        return self.dense[-1].num_outputs if self.dense else width * len(self.pooling)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingRequest:
    """Texts, or the token ids of texts, to be embedded.

    `dimensions` is None for vectors as long as the model makes them.

    `prompt_name` is that of the model's prompts which stands before every text, None for its usual one,
    before token ids for none. A text that is too long is cut if `may_cut`, and refused otherwise.
    """

    model: str
    inputs: tuple[str | tuple[int, ...], ...]
    dimensions: int | None = None
    prompt_name: str | None = None
    may_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingResult:
    """A vector for each input, in order, as packed float32 in the machine's byte order."""

    vectors: tuple[bytes, ...]
    num_prompt_tokens: int
