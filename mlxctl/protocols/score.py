"""Scores of texts against one text, in vLLM's shape.

Scores are those of reranking: a cross-encoder's, or the cosine of two embeddings.
"""

import secrets
import time
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from mlxctl.errors import InvalidRequest
from mlxctl.ir import EmbeddingRequest, EmbeddingResult
from mlxctl.protocols.decoding import decode_body
from mlxctl.protocols.ranges import Name
from mlxctl.protocols.rerank import MAX_DOCUMENTS, RerankUsage, relevance_scores

ScoredTexts = str | Annotated[list[str], Meta(min_length=1, max_length=MAX_DOCUMENTS)]


class ScoreRequest(Struct, kw_only=True):
    """One text, and one or many texts to score against it."""

    model: Name
    text_1: ScoredTexts
    text_2: ScoredTexts


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


_DECODER = msgspec.json.Decoder(ScoreRequest)


class ScoreFormatter:
    """Formatter of one request: `parse` once, then `whole`."""

    def parse(self, body: bytes) -> EmbeddingRequest:
        """Parse a body. Raises InvalidRequest."""
        decoded = decode_body(body, _DECODER)
        queries, texts = _texts(decoded.text_1, "text_1"), _texts(decoded.text_2, "text_2")
        if len(queries) > 1:
            message = f"text_1 has {len(queries)} texts; send one, with any number of texts in text_2"
            raise InvalidRequest(message, param="text_1")
        self._model, self._num_texts = decoded.model, len(texts)
        return EmbeddingRequest(model=decoded.model, query=queries[0], inputs=tuple(texts))

    def whole(self, result: EmbeddingResult) -> bytes:
        """Return the scores."""
        scores = enumerate(relevance_scores(result, self._num_texts))
        return msgspec.json.encode(
            ScoreAnswer(
                id=f"score-{secrets.token_hex(12)}",
                created=int(time.time()),
                model=self._model,
                data=[ScoredText(index=index, score=score) for index, score in scores],
                usage=RerankUsage(result.num_prompt_tokens, result.num_prompt_tokens),
            )
        )


def _texts(given: ScoredTexts, field: str) -> list[str]:
    texts = [given] if isinstance(given, str) else given
    for index, text in enumerate(texts):
        if not text:
            path = field if isinstance(given, str) else f"{field}[{index}]"
            raise InvalidRequest(f"{path} is empty; send a text", param=path)
    return texts
