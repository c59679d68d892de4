"""Ollama's routes: chat, generate, embeddings and models."""

from collections.abc import Callable
from typing import Literal

from mlxctl.protocols import OLLAMA, PROTOCOLS
from mlxctl.protocols.compat.ollama import schema
from mlxctl.protocols.compat.ollama.encode import parse_embed, parse_old_embed
from mlxctl.protocols.registry import NDJSON
from mlxctl.server.http.route import GENERATION_ERRORS, Operation, Route, RouteContext
from mlxctl.server.resources.compat.ollama import (
    OllamaModelsResource,
    OllamaPullResource,
    OllamaResource,
    OllamaShowResource,
    OllamaVersionResource,
)
from mlxctl.server.resources.text.embeddings import embeddings_route


def _generation(route: Literal["chat", "generate"]) -> Callable[[RouteContext], object]:
    return lambda context: OllamaResource(
        context.services.inference,
        PROTOCOLS[f"ollama_{route}"],
        context.open_requests,
        context.settings,
    )


def _embeddings(path: str, summary: str, body: type, answer: type, *, is_old: bool) -> Route:
    return embeddings_route(
        path,
        summary,
        parse_old_embed if is_old else parse_embed,
        body=body,
        answer=answer,
        protocol=OLLAMA,
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


def _text(route: Literal["chat", "generate"], summary: str, body: type, answer: type) -> Route:
    operation = Operation(
        method="post",
        summary=summary,
        body=body,
        answer=answer,
        events=(answer, schema.OllamaError),
        stream_media_type=NDJSON,
        errors=GENERATION_ERRORS,
    )
    return Route(
        path=f"/api/{route}",
        resource=_generation(route),
        protocol=PROTOCOLS[f"ollama_{route}"],
        access="generate",
        operations=(operation,),
    )


ROUTES = (
    _text("chat", "Create a chat answer (Ollama)", schema.OllamaChatRequest, schema.OllamaChatAnswer),
    _text(
        "generate", "Continue a prompt (Ollama)", schema.OllamaGenerateRequest, schema.OllamaGenerateAnswer
    ),
    _embeddings(
        "/api/embed",
        "Create embeddings (Ollama)",
        schema.OllamaEmbedRequest,
        schema.OllamaEmbeddings,
        is_old=False,
    ),
    _embeddings(
        "/api/embeddings",
        "Create the embedding of one text (Ollama, earlier route)",
        schema.OllamaOldEmbedRequest,
        schema.OllamaOldEmbedding,
        is_old=True,
    ),
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
