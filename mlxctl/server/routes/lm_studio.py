"""LM Studio's routes; its embeddings are OpenAI's."""

from typing import Any

from mlxctl.protocols import OPENAI, PROTOCOLS
from mlxctl.protocols.lm_studio import (
    LMStudioChatChunk,
    LMStudioChatCompletion,
    LMStudioChatFormatter,
    LMStudioCompletionsFormatter,
    LMStudioTextCompletion,
)
from mlxctl.protocols.openai.chat_schema import ChatRequest
from mlxctl.protocols.openai.completions_schema import CompletionRequest, TextChunk
from mlxctl.protocols.openai.errors import OpenAIError
from mlxctl.server.lm_studio import (
    LMStudioGenerationResource,
    LMStudioModel,
    LMStudioModels,
    LMStudioModelsResource,
    StatsFormatter,
)
from mlxctl.server.route import GENERATION_ERRORS, Operation, Route


def _generation(
    path: str,
    protocol: str,
    formatter: type[StatsFormatter],
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
        resource=lambda context: LMStudioGenerationResource(
            context.services.inference,
            formatter,
            context.open_requests,
            context.settings,
            catalog=context.services.catalog,
        ),
        protocol=PROTOCOLS[protocol],
        access="generate",
        operations=(operation,),
    )


ROUTES = (
    _generation(
        "chat/completions",
        "chat",
        LMStudioChatFormatter,
        body=ChatRequest,
        answer=LMStudioChatCompletion,
        chunk=LMStudioChatChunk,
    ),
    _generation(
        "completions",
        "completions",
        LMStudioCompletionsFormatter,
        body=CompletionRequest,
        answer=LMStudioTextCompletion,
        chunk=TextChunk,
    ),
    Route(
        path="/api/v0/models",
        resource=lambda context: LMStudioModelsResource(context.services.inference, context.services.catalog),
        access="models:read",
        protocol=OPENAI,
        operations=(
            Operation(method="get", summary="List the served models (LM Studio)", answer=LMStudioModels),
        ),
    ),
    Route(
        path="/api/v0/models/{name:path}",
        resource=lambda context: LMStudioModelsResource(context.services.inference, context.services.catalog),
        access="models:read",
        protocol=OPENAI,
        operations=(
            Operation(
                method="get", summary="Get a served model (LM Studio)", answer=LMStudioModel, errors=(404,)
            ),
        ),
    ),
)
