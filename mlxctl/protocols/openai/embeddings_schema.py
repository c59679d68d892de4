"""The body of `POST /v1/embeddings` as OpenAI documents it.

Null means unsaid; fields that are not here (user) are ignored.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from mlxctl.protocols.openai.text_inputs import TextInputs
from mlxctl.protocols.ranges import Name


class EmbeddingsRequest(Struct, kw_only=True):
    """The whole body. In base64, a vector is its float32 numbers, little-endian.

    Beyond OpenAI: `prompt_name` is that of the model's own prompts which is put before every text (`query`,
    `document`, …); `truncate` cuts what is longer than the model takes, which is refused otherwise.
    """

    model: Name
    input: TextInputs
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Meta(ge=1)] | None = None
    prompt_name: Name | None = None
    truncate: bool | None = None


class EmbeddingUsage(Struct):
    """Tokens of the texts."""

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
