"""LM Studio's routes beside generation: its models."""

from collections.abc import Callable
from typing import Any

from mlxctl.protocols import OPENAI
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
from mlxctl.server.http.route import LOAD_ERRORS, Operation, Route, RouteContext
from mlxctl.server.resources.compat.lm_studio import (
    LMStudioModelsResource,
    LMStudioNativeModelsResource,
)
from mlxctl.server.resources.compat.lm_studio_models import (
    LMStudioDownloadResource,
    LMStudioDownloadStatusResource,
    LMStudioLoadResource,
    LMStudioUnloadResource,
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


ROUTES = (
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
