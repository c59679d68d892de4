"""Bodies of `POST /v1/embeddings`.

Null means not set; other fields (user) are ignored.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from mlxctl.protocols.openai.text_inputs import TextInputs
from mlxctl.protocols.ranges import Name, PromptTokenLimit


class EmbeddingsRequest(Struct, kw_only=True):
    """Body of an embeddings request; base64 vectors are little-endian float32.

    Beyond OpenAI: `prompt_name` selects one of the model's prompts (`query`, `document`, …), which is put
    before every text; `truncate` cuts texts that are too long, which are refused otherwise, and
    `truncate_prompt_tokens` (vLLM) those of more tokens, -1 as `truncate`. Voyage's names for `dimensions`
    and `truncate` are `output_dimension` and `truncation`; its `input_type` selects a prompt if there is one.
    """

    model: Name
    input: TextInputs
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Meta(ge=1)] | None = None
    prompt_name: Name | None = None
    truncate: bool | None = None
    input_type: Name | None = None
    output_dimension: Annotated[int, Meta(ge=1)] | None = None
    output_dtype: Literal["float"] | None = None
    truncation: bool | None = None
    truncate_prompt_tokens: PromptTokenLimit | None = None


class EmbeddingUsage(Struct):
    """Tokens of the texts."""

    prompt_tokens: int
    total_tokens: int


class Embedding(Struct):
    """The vector of one text.

    As numbers or as base64 of little-endian float32.
    """

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingList(Struct):
    """A vector for each text, in order."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage
