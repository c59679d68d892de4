"""LM Studio's routes: its own, and OpenAI's with statistics."""

from collections.abc import Callable
from typing import Any

from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols import OPENAI, PROTOCOLS, GenerationProtocol
from mlxctl.protocols.compat.lm_studio.chat import (
    LMStudioChatAnswer,
    LMStudioChatEvent,
    LMStudioChatRequest,
)
from mlxctl.protocols.compat.lm_studio.models import (
    LMStudioDownload,
    LMStudioDownloadRequest,
    LMStudioLoaded,
    LMStudioLoadRequest,
    LMStudioModel,
    LMStudioModels,
    LMStudioNativeModels,
    LMStudioUnload,
)
from mlxctl.protocols.compat.lm_studio.stats import (
    LMStudioChatChunk,
    LMStudioChatCompletion,
    LMStudioChatFields,
    LMStudioCompletionFields,
    LMStudioTextCompletion,
)
from mlxctl.protocols.openai.completions_schema import TextChunk
from mlxctl.protocols.openai.errors import OpenAIError
from mlxctl.server.http.route import GENERATION_ERRORS, LOAD_ERRORS, Operation, Route, RouteContext
from mlxctl.server.resources.compat.lm_studio import (
    LMStudioModelsResource,
    LMStudioNativeModelsResource,
    ModelDescriber,
)
from mlxctl.server.resources.compat.lm_studio_models import (
    LMStudioDownloadResource,
    LMStudioDownloadStatusResource,
    LMStudioLoadResource,
    LMStudioUnloadResource,
)
from mlxctl.server.resources.generation.conversations import ThreadConversations
from mlxctl.server.resources.generation.generation import GenerationResource


def _generation(
    path: str,
    protocol: GenerationProtocol,
    *,
    body: type[Any],
    answer: type[Any],
    chunk: type[Any],
) -> Route:
    operation = Operation(
        method="post",
        summary=f"Create a {path.replace('/', ' ')[:-1]} with statistics (LM Studio)",
        body=body,
        answer=answer,
        events=(chunk, OpenAIError),
        errors=GENERATION_ERRORS,
    )
    return Route(
        path=f"/api/v0/{path}",
        resource=lambda context: GenerationResource(
            context.services.inference,
            protocol,
            context.open_requests,
            context.settings,
            describe_model=ModelDescriber(context.services.inference.models, context.services.catalog),
        ),
        protocol=protocol,
        access="generate",
        operations=(operation,),
    )


def _model_action(
    verb: str,
    summary: str,
    resource: Callable[[RouteContext], object],
    *,
    body: type[Any],
    answer: type[Any],
    errors: tuple[int, ...],
) -> Route:
    operation = Operation(method="post", summary=summary, body=body, answer=answer, errors=errors)
    return Route(
        path=f"/api/v1/models/{verb}",
        resource=resource,
        access="models:write",
        protocol=OPENAI,
        operations=(operation,),
    )


def _native_chat(context: RouteContext) -> object:
    return GenerationResource(
        context.services.inference,
        PROTOCOLS["lm_studio_chat"],
        context.open_requests,
        context.settings,
        conversations=ThreadConversations(
            context.services.responses, kind="lm_studio", unknown=_unknown_answer
        ),
    )


def _unknown_answer(response_id: str) -> InvalidRequest:
    return InvalidRequest(
        f"previous_response_id is {response_id!r}, but no such answer is stored; start a new chat",
        param="previous_response_id",
        code="previous_response_not_found",
    )


ROUTES = (
    Route(
        path="/api/v1/chat",
        resource=_native_chat,
        protocol=PROTOCOLS["lm_studio_chat"],
        access="generate",
        operations=(
            Operation(
                method="post",
                summary="Answer the next message of a chat (LM Studio)",
                body=LMStudioChatRequest,
                answer=LMStudioChatAnswer,
                events=(LMStudioChatEvent,),
                errors=GENERATION_ERRORS,
            ),
        ),
    ),
    Route(
        path="/api/v1/models",
        resource=lambda context: LMStudioNativeModelsResource(
            context.services.inference.models, context.services.catalog
        ),
        access="models:read",
        protocol=OPENAI,
        operations=(
            Operation(
                method="get", summary="List the served models (LM Studio)", answer=LMStudioNativeModels
            ),
        ),
    ),
    _model_action(
        "load",
        "Load a model (LM Studio)",
        lambda context: LMStudioLoadResource(context.services.inference.models),
        body=LMStudioLoadRequest,
        answer=LMStudioLoaded,
        errors=LOAD_ERRORS,
    ),
    _model_action(
        "unload",
        "Unload a model (LM Studio)",
        lambda context: LMStudioUnloadResource(context.services.inference.models),
        body=LMStudioUnload,
        answer=LMStudioUnload,
        errors=LOAD_ERRORS,
    ),
    _model_action(
        "download",
        "Download a model (LM Studio)",
        lambda context: LMStudioDownloadResource(context.services.catalog, context.services.inference.models),
        body=LMStudioDownloadRequest,
        answer=LMStudioDownload,
        errors=(403, 429, 503),
    ),
    Route(
        path="/api/v1/models/download/status/{job_id}",
        resource=lambda context: LMStudioDownloadStatusResource(context.services.catalog),
        access="models:write",
        protocol=OPENAI,
        operations=(
            Operation(
                method="get",
                summary="Get the state of a download (LM Studio)",
                answer=LMStudioDownload,
                errors=(404,),
            ),
        ),
    ),
    _generation(
        "chat/completions",
        PROTOCOLS["lm_studio_v0_chat"],
        body=LMStudioChatFields,
        answer=LMStudioChatCompletion,
        chunk=LMStudioChatChunk,
    ),
    _generation(
        "completions",
        PROTOCOLS["lm_studio_v0_completions"],
        body=LMStudioCompletionFields,
        answer=LMStudioTextCompletion,
        chunk=TextChunk,
    ),
    Route(
        path="/api/v0/models",
        resource=lambda context: LMStudioModelsResource(
            context.services.inference.models, context.services.catalog
        ),
        access="models:read",
        protocol=OPENAI,
        operations=(
            Operation(method="get", summary="List the served models (LM Studio)", answer=LMStudioModels),
        ),
    ),
    Route(
        path="/api/v0/models/{name:path}",
        resource=lambda context: LMStudioModelsResource(
            context.services.inference.models, context.services.catalog
        ),
        access="models:read",
        protocol=OPENAI,
        operations=(
            Operation(
                method="get", summary="Get a served model (LM Studio)", answer=LMStudioModel, errors=(404,)
            ),
        ),
    ),
)
