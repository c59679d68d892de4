"""Reranking (Jina, vLLM, Cohere, Voyage, Text Embeddings Inference)."""

from functools import partial

from mlxctl.protocols import WireProtocol
from mlxctl.protocols.compat.rerank.encode import (
    RerankAnswer,
    RerankRequest,
    TextScore,
    VoyageRanking,
    parse_rerank,
)
from mlxctl.protocols.registry import COHERE, RERANK
from mlxctl.server.http.route import Route
from mlxctl.server.resources.text.embeddings import embeddings_route


def _rerank(path: str, summary: str, *aliases: str, protocol: WireProtocol, is_cohere: bool) -> Route:
    return embeddings_route(
        path,
        summary,
        partial(parse_rerank, repeats_documents=not is_cohere, cuts_documents=is_cohere),
        body=RerankRequest,
        answer=RerankAnswer,
        other_answers=(VoyageRanking, list[TextScore]),
        protocol=protocol,
        aliases=aliases,
        reranks=True,
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
)
