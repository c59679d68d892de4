"""Cohere's embeddings; its reranking is with that of others."""

from functools import partial
from typing import Literal

from mlxctl.protocols.cohere_embeddings import (
    CohereEmbeddings,
    CohereEmbeddingsFormatter,
    CohereEmbedRequest,
)
from mlxctl.protocols.registry import COHERE
from mlxctl.server.http.route import Route
from mlxctl.server.resources.text.embeddings import embeddings_route


def _embed(version: Literal["1", "2"]) -> Route:
    return embeddings_route(
        f"/v{version}/embed",
        f"Create embeddings (Cohere, version {version})",
        partial(CohereEmbeddingsFormatter, version=version),
        body=CohereEmbedRequest,
        answer=CohereEmbeddings,
        protocol=COHERE,
    )


ROUTES = (_embed("1"), _embed("2"))
