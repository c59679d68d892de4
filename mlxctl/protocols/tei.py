"""Embeddings and errors in the shape of Text Embeddings Inference."""

import math
from array import array
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from mlxctl.ir import EmbeddingRequest, EmbeddingResult
from mlxctl.ir.errors import MlxctlError
from mlxctl.protocols.decoding import decode_body
from mlxctl.protocols.error_body import ErrorBody, error_headers, error_message
from mlxctl.protocols.openai.errors import error_status
from mlxctl.protocols.openai.text_inputs import TextInputs, read_texts_to_embed
from mlxctl.protocols.ranges import Name
from mlxctl.protocols.rerank import MAX_DOCUMENTS, relevance_scores


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


_Sentence = Annotated[str, Meta(min_length=1)]


class TeiSentences(Struct, kw_only=True):
    """A text, and texts to compare with it."""

    source_sentence: _Sentence
    sentences: Annotated[list[_Sentence], Meta(min_length=1, max_length=MAX_DOCUMENTS)]


class TeiSimilarityRequest(Struct, kw_only=True):
    """Texts to compare.

    Without a `model` the first one answers.
    """

    inputs: TeiSentences
    model: Name | None = None


class TeiError(Struct):
    """Body of an error answer."""

    error: str
    error_type: str


_DECODER = msgspec.json.Decoder(TeiEmbedRequest)
_SIMILARITY = msgspec.json.Decoder(TeiSimilarityRequest)


def tei_error(error: MlxctlError, *, request_id: str | None = None) -> ErrorBody:  # noqa: ARG001 -- only in a header
    """Return the error response, with OpenAI's status."""
    status = error_status(error)
    kind = "Overloaded" if status in (429, 503) else "Validation" if status < 500 else "Backend"
    body = msgspec.json.encode(TeiError(error_message(error), kind))
    return ErrorBody(status=status, body=body, headers=error_headers(error))


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


class TeiSimilarityFormatter:
    """Formatter of one comparison: `parse` once, then `whole`."""

    def parse(self, body: bytes) -> EmbeddingRequest:
        """Parse a body. Raises InvalidRequest."""
        decoded = decode_body(body, _SIMILARITY)
        sentences = tuple(decoded.inputs.sentences)
        self._num_sentences = len(sentences)
        return EmbeddingRequest(
            model=decoded.model or "", queries=(decoded.inputs.source_sentence,), inputs=sentences
        )

    def whole(self, result: EmbeddingResult) -> bytes:
        """Return the similarity of each sentence, in order."""
        return msgspec.json.encode(relevance_scores(result, self._num_sentences))


def _unit(vector: list[float]) -> list[float]:
    length = math.hypot(*vector)
    return [number / length for number in vector] if length else vector
