"""Documents in the order of their relevance.

In the shapes of Jina, vLLM, Cohere, Voyage and TEI. The relevance of a document is a cross-encoder's score,
or the cosine of its embedding and that of the query, -1 to 1.
"""

import math
import secrets
from array import array
from dataclasses import dataclass
from operator import mul
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from mlxctl.ir import EmbeddingRequest, EmbeddingResult
from mlxctl.ir.errors import InvalidRequest, MlxctlError
from mlxctl.protocols.decoding import decode_body
from mlxctl.protocols.error_body import ErrorBody, error_headers, error_message
from mlxctl.protocols.openai.errors import error_status
from mlxctl.protocols.ranges import Name

_MAX_DOCUMENTS = 2047


class RerankText(Struct):
    """A document as an object."""

    text: str


Documents = Annotated[list[str | RerankText], Meta(min_length=1, max_length=_MAX_DOCUMENTS)]


class RerankRequest(Struct, kw_only=True):
    """A query, and documents to order by their relevance to it.

    Without a `model` the first reranker answers, or the first embedding model. `top_n` limits the results.
    The results repeat the documents if `return_documents`. Documents are truncated to `max_tokens_per_doc`,
    and with `truncate` to what the model can read; Cohere's route always does that. With `texts` in place of
    `documents`, the request is one of Text Embeddings Inference: the answer is a list. With `top_k` or
    `truncation` it is one of Voyage: the answer has its list, and repeats no documents by default.
    """

    model: Name | None = None
    query: str
    documents: Documents | None = None
    texts: Documents | None = None
    top_n: Annotated[int, Meta(ge=1)] | None = None
    top_k: Annotated[int, Meta(ge=1)] | None = None
    return_documents: bool | None = None
    return_text: bool | None = None
    max_tokens_per_doc: Annotated[int, Meta(ge=1)] | None = None
    truncate: bool | None = None
    truncation: bool | None = None


class RerankResult(Struct):
    """A document by its position in the request."""

    index: int
    relevance_score: float
    document: RerankText | UnsetType = UNSET


class VoyageResult(Struct):
    """A document by its position in the request, as at Voyage."""

    index: int
    relevance_score: float
    document: str | UnsetType = UNSET


class RerankUsage(Struct):
    """Numbers of tokens that the request took."""

    prompt_tokens: int
    total_tokens: int


class RerankAnswer(Struct):
    """Documents, the most relevant first."""

    id: str
    model: str
    results: list[RerankResult]
    usage: RerankUsage
    meta: dict[str, Any]


class VoyageRanking(Struct):
    """Documents in Voyage's list, the most relevant first."""

    object: Literal["list"]
    data: list[VoyageResult]
    model: str
    usage: RerankUsage


class TextScore(Struct):
    """A text of a request of Text Embeddings Inference by its position."""

    index: int
    score: float
    text: str | UnsetType = UNSET


class CohereError(Struct):
    """Body of an error answer of Cohere's route; `id` is the request's."""

    id: str | None
    message: str


_DECODER = msgspec.json.Decoder(RerankRequest)


def cohere_error(error: MlxctlError, *, request_id: str | None = None) -> ErrorBody:
    """Return the error response, with OpenAI's status."""
    body = msgspec.json.encode(CohereError(id=request_id, message=error_message(error)))
    return ErrorBody(status=error_status(error), body=body, headers=error_headers(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankShape:
    """The shape of ordered documents; `texts` are repeated with them."""

    num_documents: int
    top_n: int | None
    texts: tuple[str, ...] | None
    is_tei: bool
    is_voyage: bool

    def encode(self, result: EmbeddingResult) -> bytes:
        """Return the ordered documents."""
        scores = _relevance_scores(result, self.num_documents)
        # The sort is stable: equal documents keep their order.
        order = sorted(range(len(scores)), key=lambda index: -scores[index])[: self.top_n]
        if self.is_tei:
            return msgspec.json.encode(
                [TextScore(index, scores[index], self._repeated(index)) for index in order]
            )
        usage = RerankUsage(result.num_prompt_tokens, result.num_prompt_tokens)
        if self.is_voyage:
            data = [VoyageResult(index, scores[index], self._repeated(index)) for index in order]
            return msgspec.json.encode(VoyageRanking("list", data, result.model, usage))
        return msgspec.json.encode(
            RerankAnswer(
                id=f"rerank-{secrets.token_hex(12)}",
                model=result.model,
                results=[self._result(index, scores[index]) for index in order],
                usage=usage,
                meta={"api_version": {"version": "2"}, "billed_units": {"search_units": 1}},
            )
        )

    def _repeated(self, index: int) -> str | UnsetType:
        return UNSET if self.texts is None else self.texts[index]

    def _result(self, index: int, score: float) -> RerankResult:
        document = UNSET if self.texts is None else RerankText(self.texts[index])
        return RerankResult(index, score, document)


def parse_rerank(
    body: bytes, *, repeats_documents: bool, cuts_documents: bool
) -> tuple[EmbeddingRequest, RerankShape]:
    """Parse a body. Raises InvalidRequest.

    `repeats_documents` is the default of `return_documents`, `cuts_documents` that of `truncate`.
    """
    decoded = decode_body(body, _DECODER)
    given = [
        (name, value) for name in ("documents", "texts") if (value := getattr(decoded, name)) is not None
    ]
    if len(given) != 1:
        message = "send either documents or texts" if given else "documents is missing; it is required"
        raise InvalidRequest(message, param="documents")
    ((field, documents),) = given
    texts = tuple(document if isinstance(document, str) else document.text for document in documents)
    places = [f"{field}[{index}]" for index in range(len(texts))]
    for path, text in zip(("query", *places), (decoded.query, *texts), strict=True):
        if not text:
            raise InvalidRequest(f"{path} is empty; send a text", param=path)
    is_tei, is_voyage = field == "texts", decoded.top_k is not None or decoded.truncation is not None
    if is_tei:
        repeats = bool(decoded.return_text)
    elif decoded.return_documents is not None or is_voyage:
        repeats = bool(decoded.return_documents)
    else:
        repeats = repeats_documents
    truncate = decoded.truncation if decoded.truncate is None else decoded.truncate
    request = EmbeddingRequest(
        model=decoded.model or "",
        query=decoded.query,
        inputs=texts,
        may_cut=cuts_documents if truncate is None else truncate,
        max_document_tokens=decoded.max_tokens_per_doc,
    )
    shape = RerankShape(
        num_documents=len(texts),
        top_n=decoded.top_n or decoded.top_k,
        texts=texts if repeats else None,
        is_tei=is_tei,
        is_voyage=is_voyage,
    )
    return request, shape


def _relevance_scores(result: EmbeddingResult, num_documents: int) -> list[float]:
    """Return the relevance of each document to the query."""
    vectors = [array("f", packed) for packed in result.vectors]
    if len(vectors) == num_documents:
        return [score[0] for score in vectors]
    query, *documents = vectors
    return [_cosine(query, document) for document in documents]


def _cosine(one: "array[float]", other: "array[float]") -> float:
    lengths = math.hypot(*one) * math.hypot(*other)
    return sum(map(mul, one, other)) / lengths if lengths else 0.0
