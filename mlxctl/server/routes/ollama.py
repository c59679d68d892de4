"""Ollama's routes beside generation and embeddings: models and version."""

from mlxctl.protocols.compat.ollama import schema
from mlxctl.protocols.compat.ollama.routes import OLLAMA
from mlxctl.protocols.wire_protocol import NDJSON
from mlxctl.server.http.route import Operation, Route
from mlxctl.server.resources.compat.ollama import (
    OllamaModelsResource,
    OllamaPullResource,
    OllamaShowResource,
    OllamaVersionResource,
)


def _models(path: str, summary: str, answer: type, *, loaded_only: bool) -> Route:
    return Route(
        path=path,
        resource=lambda context: OllamaModelsResource(
            context.services.inference.models, context.services.catalog, loaded_only=loaded_only
        ),
        protocol=OLLAMA,
        access="models:read",
        operations=(Operation(method="get", summary=summary, answer=answer),),
    )


ROUTES = (
    _models("/api/tags", "List the served models (Ollama)", schema.OllamaModels, loaded_only=False),
    _models("/api/ps", "List the loaded models (Ollama)", schema.OllamaLoadedModels, loaded_only=True),
    Route(
        path="/api/show",
        resource=lambda context: OllamaShowResource(
            context.services.inference.models, context.services.catalog
        ),
        protocol=OLLAMA,
        access="models:read",
        operations=(
            Operation(
                method="post",
                summary="Describe a model (Ollama)",
                body=schema.OllamaShowRequest,
                answer=schema.OllamaModelInfo,
                errors=(404,),
            ),
        ),
    ),
    Route(
        path="/api/pull",
        resource=lambda context: OllamaPullResource(context.services.inference.models),
        protocol=OLLAMA,
        access="models:read",
        operations=(
            Operation(
                method="post",
                summary="Confirm that a model is served; downloads none (Ollama)",
                body=schema.OllamaPullRequest,
                answer=schema.OllamaPullStatus,
                events=(schema.OllamaPullStatus,),
                stream_media_type=NDJSON,
                errors=(404,),
            ),
        ),
    ),
    Route(
        path="/api/version",
        resource=lambda _: OllamaVersionResource(),
        protocol=OLLAMA,
        access="caller",
        operations=(
            Operation(method="get", summary="Get the version of Ollama's API", answer=schema.OllamaVersion),
        ),
    ),
)
