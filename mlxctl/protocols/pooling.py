"""vLLM's `/pooling` of embedding models: OpenAI's embeddings under another name."""

import secrets
import time
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import Struct

from mlxctl.ir import EmbeddingResult
from mlxctl.protocols.openai.embeddings import OpenAIEmbeddingsFormatter
from mlxctl.protocols.openai.embeddings_schema import EmbeddingsRequest, EmbeddingUsage


class PoolingRequest(EmbeddingsRequest, kw_only=True):
    """Body of an embeddings request with vLLM's name of the task."""

    task: Literal["embed"] | None = None


class PooledText(Struct, kw_only=True):
    """The vector of one text."""

    index: int
    object: Literal["pooling"] = "pooling"
    data: list[float] | str


class PoolingAnswer(Struct, kw_only=True):
    """A vector for each text, in order."""

    id: str
    object: Literal["list"] = "list"
    created: int
    model: str
    data: list[PooledText]
    usage: EmbeddingUsage


class PoolingFormatter(OpenAIEmbeddingsFormatter):
    """Formatter of one request: `parse` once, then `whole`."""

    decoder: ClassVar[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(PoolingRequest)

    def whole(self, result: EmbeddingResult) -> bytes:
        """Return the vectors."""
        answer = PoolingAnswer(
            id=f"pool-{secrets.token_hex(12)}",
            created=int(time.time()),
            model=result.model,
            data=[
                PooledText(index=index, data=self.vector(packed))
                for index, packed in enumerate(result.vectors)
            ],
            usage=EmbeddingUsage(
                prompt_tokens=result.num_prompt_tokens, total_tokens=result.num_prompt_tokens
            ),
        )
        return msgspec.json.encode(answer)
