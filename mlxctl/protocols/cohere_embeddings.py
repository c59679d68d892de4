"""Embeddings in Cohere's shapes, /v1/embed and /v2/embed."""

import secrets
from array import array
from base64 import b64encode
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from mlxctl.ir import EmbeddingRequest, EmbeddingResult
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.decoding import decode_body
from mlxctl.protocols.openai.text_inputs import read_texts_to_embed
from mlxctl.protocols.ranges import Name
from mlxctl.protocols.validation_errors import missing

Purpose = Literal["search_document", "search_query", "classification", "clustering", "image"]
VectorType = Literal["float", "binary", "ubinary", "base64"]
# A field of CohereVectors hides the name `float`.
Floats = list[list[float]]
_SIGN_BIT = 128


class CohereText(Struct, tag_field="type", tag="text"):
    """A text as a part of an input."""

    text: str


class CohereInput(Struct):
    """An input of one part."""

    content: Annotated[list[CohereText], Meta(min_length=1, max_length=1)]


class CohereEmbedRequest(Struct, kw_only=True):
    """Texts to embed; images are refused.

    Without a `model` the first one answers. `input_type` puts the model's prompt for such texts before them,
    if it has one. A text that is too long is cut at its end, unless `truncate` is NONE.
    """

    model: Name | None = None
    texts: list[str] | None = None
    inputs: list[CohereInput] | None = None
    images: list[str] | None = None
    input_type: Purpose | None = None
    embedding_types: Annotated[list[VectorType], Meta(min_length=1)] | None = None
    output_dimension: Annotated[int, Meta(ge=1)] | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    truncate: Literal["NONE", "END"] | None = None


class CohereVectors(Struct, kw_only=True):
    """Vectors by their type.

    `binary` and `ubinary` have the signs of eight numbers in each byte, `base64` is little-endian float32.
    """

    float: Floats | UnsetType = UNSET
    binary: list[list[int]] | UnsetType = UNSET
    ubinary: list[list[int]] | UnsetType = UNSET
    base64: list[str] | UnsetType = UNSET


class CohereEmbeddings(Struct, kw_only=True):
    """The vectors of all texts.

    They are a plain list where a request to /v1/embed names no types.
    """

    id: str
    response_type: Literal["embeddings_by_type", "embeddings_floats"]
    embeddings: CohereVectors | Floats
    texts: list[str]
    meta: dict[str, Any]


_DECODER = msgspec.json.Decoder(CohereEmbedRequest)


class CohereEmbeddingsFormatter:
    """Formatter of one request: `parse` once, then `whole`."""

    def __init__(self, *, version: Literal["1", "2"]) -> None:
        self._version = version

    def parse(self, body: bytes) -> EmbeddingRequest:
        """Parse a body. Raises InvalidRequest."""
        decoded = decode_body(body, _DECODER)
        self._texts = _texts(decoded)
        self._types = decoded.embedding_types
        return EmbeddingRequest(
            model=decoded.model or "",
            inputs=tuple(self._texts),
            dimensions=decoded.output_dimension,
            purpose=decoded.input_type,
            may_cut=decoded.truncate != "NONE",
            max_tokens=decoded.max_tokens,
        )

    def whole(self, result: EmbeddingResult) -> bytes:
        """Return the vectors in the requested types. Raises InvalidRequest."""
        has_list = self._version == "1" and self._types is None
        answer = CohereEmbeddings(
            id=f"embd-{secrets.token_hex(12)}",
            response_type="embeddings_floats" if has_list else "embeddings_by_type",
            embeddings=_floats(result) if has_list else _by_type(result, self._types or ["float"]),
            texts=self._texts,
            meta={
                "api_version": {"version": self._version},
                "billed_units": {"input_tokens": result.num_prompt_tokens},
            },
        )
        return msgspec.json.encode(answer)


def _texts(request: CohereEmbedRequest) -> list[str]:
    if request.images is not None or request.input_type == "image":
        raise InvalidRequest("images cannot be embedded here; send texts", param="images")
    given = [name for name in ("texts", "inputs") if getattr(request, name) is not None]
    if not given:
        raise missing("texts")
    if len(given) > 1:
        raise InvalidRequest("send either texts or inputs", param="inputs")
    texts = request.texts
    if texts is None:
        texts = [part.content[0].text for part in request.inputs or ()]
    read_texts_to_embed([*texts], given[0])
    return texts


def _by_type(result: EmbeddingResult, types: list[VectorType]) -> CohereVectors:
    vectors = CohereVectors()
    if "float" in types:
        vectors.float = _floats(result)
    if "base64" in types:
        # NOTE: every machine that this runs on is little-endian, as the protocol is.
        vectors.base64 = [b64encode(packed).decode() for packed in result.vectors]
    if "binary" in types or "ubinary" in types:
        signs = [_signs(vector) for vector in _floats(result)]
        if "ubinary" in types:
            vectors.ubinary = signs
        if "binary" in types:
            vectors.binary = [[byte - _SIGN_BIT for byte in row] for row in signs]
    return vectors


def _floats(result: EmbeddingResult) -> Floats:
    return [array("f", packed).tolist() for packed in result.vectors]


def _signs(vector: list[float]) -> list[int]:
    """Return a bit for each number, eight in each byte.

    It is 1 from zero on. Raises InvalidRequest.
    """
    if len(vector) % 8:
        message = f"binary vectors need a multiple of 8 numbers, and these have {len(vector)}"
        raise InvalidRequest(f"{message}; set output_dimension", param="embedding_types")
    bits = "".join("1" if number >= 0 else "0" for number in vector)
    return list(int(bits, 2).to_bytes(len(vector) // 8, "big"))
