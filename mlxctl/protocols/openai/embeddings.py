"""OpenAI embeddings."""

from array import array
from base64 import b64encode
from dataclasses import dataclass
from typing import Any

import msgspec

from mlxctl.ir import EmbeddingRequest, EmbeddingResult
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.decoding import decode_body
from mlxctl.protocols.openai.embeddings_schema import (
    Embedding,
    EmbeddingList,
    EmbeddingsRequest,
    EmbeddingUsage,
)
from mlxctl.protocols.openai.text_inputs import read_texts_to_embed

_DECODER = msgspec.json.Decoder(EmbeddingsRequest)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingShape:
    """The shape of a list of embeddings."""

    model: str
    as_base64: bool

    def encode(self, result: EmbeddingResult) -> bytes:
        """Return the list of embeddings."""
        data = [
            Embedding(object="embedding", index=index, embedding=self._vector(packed))
            for index, packed in enumerate(result.vectors)
        ]
        usage = EmbeddingUsage(prompt_tokens=result.num_prompt_tokens, total_tokens=result.num_prompt_tokens)
        return msgspec.json.encode(EmbeddingList(object="list", data=data, model=self.model, usage=usage))

    def _vector(self, packed: bytes) -> str | list[float]:
        """Return a vector as the request asks for."""
        # NOTE: every machine that this runs on is little-endian, as the protocol is.
        return b64encode(packed).decode() if self.as_base64 else array("f", packed).tolist()


def parse_embeddings(
    body: bytes, *, decoder: msgspec.json.Decoder[Any] = _DECODER
) -> tuple[EmbeddingRequest, EmbeddingShape]:
    """Parse a request body. Raises InvalidRequest."""
    decoded: EmbeddingsRequest = decode_body(body, decoder)
    texts = read_texts_to_embed(decoded.input, "input")
    if decoded.prompt_name is not None and not isinstance(texts[0], str):
        message = (
            "prompt_name needs texts, but input has token ids; send texts, or put the prompt's token "
            "ids before them"
        )
        raise InvalidRequest(message, param="prompt_name")
    request = EmbeddingRequest(
        model=decoded.model,
        inputs=texts,
        dimensions=decoded.dimensions or decoded.output_dimension,
        prompt_name=decoded.prompt_name,
        purpose=decoded.input_type,
        may_cut=bool(decoded.truncate or decoded.truncation) or decoded.truncate_prompt_tokens == -1,
        max_tokens=None if decoded.truncate_prompt_tokens == -1 else decoded.truncate_prompt_tokens,
    )
    return request, EmbeddingShape(model=decoded.model, as_base64=decoded.encoding_format == "base64")
