"""Embedding requests, results and recipes. Pure values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from mlxctl.ir.requests import KeepAlive

Pooling = Literal["cls", "max", "mean", "mean_sqrt_len", "weighted_mean", "last_token"]
EncoderKind = Literal["bert", "xlm_roberta", "modernbert", "gemma3_text", "llama_bidirec"]
"""The architectures here whose tokens attend to later tokens, too."""
Activation = Literal["identity", "tanh", "relu", "gelu", "sigmoid", "silu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseLayer:
    """A layer applied to the pooled vector.

    `file` in the model's directory holds its weights; without one they are among the model's weights as
    `dense.0`, `dense.1` and so on. With `norm_epsilon` a layer norm without bias follows the activation.
    """

    file: str | None = None
    num_inputs: int
    num_outputs: int
    has_bias: bool
    activation: Activation
    norm_epsilon: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingRecipe:
    """How a model's hidden states become one vector.

    Without an `encoder`, attention is causal. The vectors of several `pooling` methods are concatenated, then
    pass the `dense` layers. `max_length` is in tokens. `prompt` precedes every text, unless the request names
    one of `prompts` by its key; the text is in lower case if `is_uncased`. With `scores_pairs` the model is a
    cross-encoder: a text is a query with a document, and its vector is their score alone.
    """

    pooling: tuple[Pooling, ...]
    is_normalized: bool
    max_length: int
    encoder: EncoderKind | None = None
    dense: tuple[DenseLayer, ...] = ()
    prompt: str = ""
    prompts: Mapping[str, str] = field(default_factory=dict)
    is_uncased: bool = False
    scores_pairs: bool = False

    def num_dimensions(self, width: int) -> int:
        """Return a vector's length for hidden states of `width` numbers."""
        return self.dense[-1].num_outputs if self.dense else width * len(self.pooling)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingRequest:
    """Texts, or the token ids of texts, to embed.

    `dimensions` None means the model's full length. `prompt_name` is the key of the prompt before every text,
    None for the model's usual one; token ids get none. Without it, `purpose` (such as "search_query") selects
    the prompt of that name, if the model has one. With `may_cut` a text that is too long is truncated,
    otherwise it raises an error; with `max_tokens` it is truncated to that length. With a `query` the inputs
    are documents, of which a cross-encoder gives one score each; another model's first vector is the
    query's. Documents are truncated to `max_document_tokens`.
    """

    model: str
    inputs: tuple[str | tuple[int, ...], ...]
    query: str | None = None
    dimensions: int | None = None
    prompt_name: str | None = None
    purpose: str | None = None
    may_cut: bool = False
    max_tokens: int | None = None
    max_document_tokens: int | None = None
    keep_alive: KeepAlive | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingResult:
    """One vector per text, in order.

    Packed float32 in the machine's byte order. `model` is the requested name.
    """

    model: str
    vectors: tuple[bytes, ...]
    num_prompt_tokens: int
