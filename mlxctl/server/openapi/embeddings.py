"""What embeddings answer, as types: only for the description, as those of completions."""

from typing import Literal

from msgspec import Struct


class EmbeddingUsage(Struct):
    """Tokens of texts."""

    prompt_tokens: int
    total_tokens: int


class Embedding(Struct):
    """The vector of one text, as numbers or as base64 of little-endian float32."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingList(Struct):
    """A vector for each text, in order."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage
