"""Reranking (Jina, vLLM, Cohere), scores and pooling (vLLM), TEI's embeddings."""

from functools import partial

from mlxctl.protocols import OPENAI, OPENAI_EMBEDDINGS, WireProtocol
from mlxctl.protocols.pooling import PoolingAnswer, PoolingFormatter, PoolingRequest
from mlxctl.protocols.registry import COHERE, RERANK, TEI
from mlxctl.protocols.rerank import RerankAnswer, RerankFormatter, RerankRequest, TextScore, VoyageRanking
from mlxctl.protocols.score import ScoreAnswer, ScoreFormatter, ScoreRequest
from mlxctl.protocols.tei import (
    TeiEmbeddingsFormatter,
    TeiEmbedRequest,
    TeiSimilarityFormatter,
    TeiSimilarityRequest,
)
from mlxctl.server.http.route import Route
from mlxctl.server.resources.text.embeddings import embeddings_route


def _rerank(path: str, summary: str, *aliases: str, protocol: WireProtocol, is_cohere: bool) -> Route:
    return embeddings_route(
        path,
        summary,
        partial(RerankFormatter, repeats_documents=not is_cohere, cuts_documents=is_cohere),
        body=RerankRequest,
        answer=RerankAnswer,
        other_answers=(VoyageRanking, list[TextScore]),
        protocol=protocol,
        aliases=aliases,
    )


ROUTES = (
    _rerank(
        "/v1/rerank",
        "Order documents by relevance (Jina, vLLM, llama.cpp, Voyage, Text Embeddings Inference)",
        "/rerank",
        "/v1/reranking",
        "/reranking",
        protocol=RERANK,
        is_cohere=False,
    ),
    _rerank("/v2/rerank", "Order documents by relevance (Cohere)", protocol=COHERE, is_cohere=True),
    embeddings_route(
        "/embed",
        "Create embeddings (Text Embeddings Inference)",
        TeiEmbeddingsFormatter,
        body=TeiEmbedRequest,
        answer=list[list[float]],
        protocol=TEI,
    ),
    embeddings_route(
        "/similarity",
        "Compare a text with others (Text Embeddings Inference)",
        TeiSimilarityFormatter,
        body=TeiSimilarityRequest,
        answer=list[float],
        protocol=TEI,
    ),
    embeddings_route(
        "/pooling",
        "Create embeddings (vLLM)",
        PoolingFormatter,
        body=PoolingRequest,
        answer=PoolingAnswer,
        protocol=OPENAI_EMBEDDINGS,
    ),
    embeddings_route(
        "/v1/score",
        "Score pairs of texts (vLLM)",
        ScoreFormatter,
        body=ScoreRequest,
        answer=ScoreAnswer,
        protocol=OPENAI,
        aliases=("/score",),
    ),
)
