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
from mlxctl.server.embeddings import EmbeddingsResource
from mlxctl.server.route import GENERATION_ERRORS, Operation, Route


def _rerank(path: str, summary: str, *aliases: str, protocol: WireProtocol, is_cohere: bool) -> Route:
    operation = Operation(
        method="post",
        summary=summary,
        body=RerankRequest,
        answer=RerankAnswer,
        other_answers=(VoyageRanking, list[TextScore]),
        errors=GENERATION_ERRORS,
    )
    return Route(
        path=path,
        aliases=aliases,
        resource=lambda context: EmbeddingsResource(
            context.services.inference,
            context.open_requests,
            context.settings,
            create_formatter=partial(
                RerankFormatter, repeats_documents=not is_cohere, cuts_documents=is_cohere
            ),
        ),
        protocol=protocol,
        access="embed",
        operations=(operation,),
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
    Route(
        path="/embed",
        resource=lambda context: EmbeddingsResource(
            context.services.inference,
            context.open_requests,
            context.settings,
            create_formatter=TeiEmbeddingsFormatter,
        ),
        protocol=TEI,
        access="embed",
        operations=(
            Operation(
                method="post",
                summary="Create embeddings (Text Embeddings Inference)",
                body=TeiEmbedRequest,
                answer=list[list[float]],
                errors=GENERATION_ERRORS,
            ),
        ),
    ),
    Route(
        path="/similarity",
        resource=lambda context: EmbeddingsResource(
            context.services.inference,
            context.open_requests,
            context.settings,
            create_formatter=TeiSimilarityFormatter,
        ),
        protocol=TEI,
        access="embed",
        operations=(
            Operation(
                method="post",
                summary="Compare a text with others (Text Embeddings Inference)",
                body=TeiSimilarityRequest,
                answer=list[float],
                errors=GENERATION_ERRORS,
            ),
        ),
    ),
    Route(
        path="/pooling",
        resource=lambda context: EmbeddingsResource(
            context.services.inference,
            context.open_requests,
            context.settings,
            create_formatter=PoolingFormatter,
        ),
        protocol=OPENAI_EMBEDDINGS,
        access="embed",
        operations=(
            Operation(
                method="post",
                summary="Create embeddings (vLLM)",
                body=PoolingRequest,
                answer=PoolingAnswer,
                errors=GENERATION_ERRORS,
            ),
        ),
    ),
    Route(
        path="/v1/score",
        aliases=("/score",),
        resource=lambda context: EmbeddingsResource(
            context.services.inference,
            context.open_requests,
            context.settings,
            create_formatter=ScoreFormatter,
        ),
        protocol=OPENAI,
        access="embed",
        operations=(
            Operation(
                method="post",
                summary="Score pairs of texts (vLLM)",
                body=ScoreRequest,
                answer=ScoreAnswer,
                errors=GENERATION_ERRORS,
            ),
        ),
    ),
)
