"""Embeddings in the shape of Text Embeddings Inference."""

import math
from array import array
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from mlxctl.ir import EmbeddingRequest, EmbeddingResult
from mlxctl.protocols.decoding import decode_body
from mlxctl.protocols.openai.text_inputs import TextInputs, read_texts_to_embed
from mlxctl.protocols.ranges import Name


class TeiEmbedRequest(Struct, kw_only=True):
    """Texts or token ids to embed.

    Without a `model` the first one answers. Vectors have the length 1, unless `normalize` is false: then they
    are as the model makes them. `truncate` cuts texts that are too long, which are refused otherwise.
    """

    inputs: TextInputs
    model: Name | None = None
    normalize: bool | None = None
    truncate: bool | None = None
    prompt_name: Name | None = None
    dimensions: Annotated[int, Meta(ge=1)] | None = None


_DECODER = msgspec.json.Decoder(TeiEmbedRequest)


class TeiEmbeddingsFormatter:
    """Formatter of one request: `parse` once, then `whole`."""

    def parse(self, body: bytes) -> EmbeddingRequest:
        """Parse a body. Raises InvalidRequest."""
        decoded = decode_body(body, _DECODER)
        texts = read_texts_to_embed(decoded.inputs, "inputs")
        self._normalizes = decoded.normalize is not False
        return EmbeddingRequest(
            model=decoded.model or "",
            inputs=texts,
            dimensions=decoded.dimensions,
            prompt_name=decoded.prompt_name,
            may_cut=bool(decoded.truncate),
        )

    def whole(self, result: EmbeddingResult) -> bytes:
        """Return the vectors in order."""
        vectors = [array("f", packed).tolist() for packed in result.vectors]
        return msgspec.json.encode([_unit(vector) for vector in vectors] if self._normalizes else vectors)


def _unit(vector: list[float]) -> list[float]:
    length = math.hypot(*vector)
    return [number / length for number in vector] if length else vector
