"""Embeddings in llama.cpp's own shape."""

from array import array

import msgspec
from msgspec import Struct

from mlxctl.ir import EmbeddingRequest, EmbeddingResult
from mlxctl.protocols.decoding import decode_body
from mlxctl.protocols.openai.text_inputs import TextInputs, read_texts_to_embed
from mlxctl.protocols.ranges import Name
from mlxctl.protocols.validation_errors import missing


class LlamaEmbeddingRequest(Struct, kw_only=True):
    """Texts or token ids to embed.

    Without a `model` the first one answers.
    """

    content: TextInputs | None = None
    input: TextInputs | None = None
    model: Name | None = None


class LlamaEmbedding(Struct):
    """A text's position, and a list of its one vector."""

    index: int
    embedding: list[list[float]]


_DECODER = msgspec.json.Decoder(LlamaEmbeddingRequest)


class LlamaVectors:
    """The shape of an answer, which is always the same."""

    def encode(self, result: EmbeddingResult) -> bytes:
        """Return the vectors in order."""
        vectors = [array("f", packed).tolist() for packed in result.vectors]
        return msgspec.json.encode([LlamaEmbedding(index, [vector]) for index, vector in enumerate(vectors)])


def parse_embeddings(body: bytes) -> tuple[EmbeddingRequest, LlamaVectors]:
    """Parse a body. Raises InvalidRequest."""
    decoded = decode_body(body, _DECODER)
    field = "content" if decoded.input is None else "input"
    given = getattr(decoded, field)
    if given is None:
        raise missing("content")
    return EmbeddingRequest(
        model=decoded.model or "", inputs=read_texts_to_embed(given, field)
    ), LlamaVectors()
