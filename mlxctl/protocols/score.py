"""Scores of pairs of texts, in vLLM's shape.

Scores are those of reranking: a cross-encoder's, or the cosine of two embeddings.
"""

import secrets
import time
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from mlxctl.ir import EmbeddingRequest, EmbeddingResult
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.decoding import decode_body
from mlxctl.protocols.ranges import Name
from mlxctl.protocols.rerank import MAX_DOCUMENTS, RerankUsage, relevance_scores
from mlxctl.protocols.validation_errors import missing

ScoredTexts = str | Annotated[list[str], Meta(min_length=1, max_length=MAX_DOCUMENTS)]


class ScoreRequest(Struct, kw_only=True):
    """Texts to score against one text, or as many pairs of texts.

    vLLM has several names for both.
    """

    model: Name
    text_1: ScoredTexts | None = None
    text_2: ScoredTexts | None = None
    queries: ScoredTexts | None = None
    documents: ScoredTexts | None = None
    items: ScoredTexts | None = None
    data_1: ScoredTexts | None = None
    data_2: ScoredTexts | None = None


class ScoredText(Struct, kw_only=True):
    """The score of a text by its position in `text_2`."""

    index: int
    object: Literal["score"] = "score"
    score: float


class ScoreAnswer(Struct, kw_only=True):
    """The scores, in the order of the texts."""

    id: str
    object: Literal["list"] = "list"
    created: int
    model: str
    data: list[ScoredText]
    usage: RerankUsage


_FIRST = ("text_1", "queries", "data_1")
_SECOND = ("text_2", "documents", "items", "data_2")
_DECODER = msgspec.json.Decoder(ScoreRequest)


class ScoreFormatter:
    """Formatter of one request: `parse` once, then `whole`."""

    def parse(self, body: bytes) -> EmbeddingRequest:
        """Parse a body. Raises InvalidRequest."""
        decoded = decode_body(body, _DECODER)
        (field, queries), (_, texts) = _texts(decoded, _FIRST), _texts(decoded, _SECOND)
        if len(queries) not in (1, len(texts)):
            message = f"{field} has {len(queries)} texts for {len(texts)}; send one, or one for each"
            raise InvalidRequest(message, param=field)
        self._num_texts = len(texts)
        return EmbeddingRequest(model=decoded.model, queries=tuple(queries), inputs=tuple(texts))

    def whole(self, result: EmbeddingResult) -> bytes:
        """Return the scores."""
        scores = enumerate(relevance_scores(result, self._num_texts))
        return msgspec.json.encode(
            ScoreAnswer(
                id=f"score-{secrets.token_hex(12)}",
                created=int(time.time()),
                model=result.model,
                data=[ScoredText(index=index, score=score) for index, score in scores],
                usage=RerankUsage(result.num_prompt_tokens, result.num_prompt_tokens),
            )
        )


def _texts(request: ScoreRequest, names: tuple[str, ...]) -> tuple[str, list[str]]:
    """Return the field that is given, with its texts. Raises InvalidRequest."""
    fields = [name for name in names if getattr(request, name) is not None]
    if not fields:
        raise missing(names[0])
    if len(fields) > 1:
        raise InvalidRequest(f"send either {fields[0]} or {fields[1]}", param=fields[1])
    field = fields[0]
    given = getattr(request, field)
    texts = [given] if isinstance(given, str) else given
    for index, text in enumerate(texts):
        if not text:
            path = field if isinstance(given, str) else f"{field}[{index}]"
            raise InvalidRequest(f"{path} is empty; send a text", param=path)
    return field, texts
