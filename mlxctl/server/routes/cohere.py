"""Cohere's embeddings; its reranking is with that of others."""

from functools import partial
from typing import Literal

from mlxctl.protocols.cohere_embeddings import (
    CohereEmbeddings,
    CohereEmbeddingsFormatter,
    CohereEmbedRequest,
)
from mlxctl.protocols.registry import COHERE
from mlxctl.server.embeddings import EmbeddingsResource
from mlxctl.server.route import GENERATION_ERRORS, Operation, Route


def _embed(version: Literal["1", "2"]) -> Route:
    operation = Operation(
        method="post",
        summary=f"Create embeddings (Cohere, version {version})",
        body=CohereEmbedRequest,
        answer=CohereEmbeddings,
        errors=GENERATION_ERRORS,
    )
    return Route(
        path=f"/v{version}/embed",
        resource=lambda context: EmbeddingsResource(
            context.services.inference,
            context.open_requests,
            context.settings,
            create_formatter=partial(CohereEmbeddingsFormatter, version=version),
        ),
        protocol=COHERE,
        access="embed",
        operations=(operation,),
    )


ROUTES = (_embed("1"), _embed("2"))
