"""Routes of models: served models, loading, pinning, the library."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from mlxctl.inference import ServedModel
from mlxctl.inference.call_context import CallContext
from mlxctl.library.views import DownloadView, FitView
from mlxctl.protocols.model_list import MAX_MODELS, Model, ModelList
from mlxctl.protocols.problem import Problem
from mlxctl.server.http.route import LOAD_ERRORS, Operation, Query, Route, RouteContext
from mlxctl.server.resources.models.hub import HubModelList, HubSearchResource
from mlxctl.server.resources.models.library import (
    DownloadList,
    DownloadRequest,
    DownloadResource,
    DownloadsResource,
    FitList,
    FitResource,
    LibraryList,
    LibraryResource,
)
from mlxctl.server.resources.models.model_admin import (
    LoadChoice,
    LoadEvent,
    ModelActionResource,
    ModelChoice,
    ModelLoadResource,
    ModelStatus,
)
from mlxctl.server.resources.models.models import ModelResource, ModelsResource

_MODEL = Query(name="model", schema={"type": "string"})
_CONTEXT = Query(name="context", schema={"type": "integer", "minimum": 1, "maximum": 1 << 27})
_START_DOWNLOAD = Operation(
    method="post",
    summary="Download a model",
    body=DownloadRequest,
    answer=DownloadView,
    status=202,
    errors=(403, 429, 503),
)


def _action(
    verb: str,
    summary: str,
    act: Callable[[RouteContext], Callable[[str, CallContext], Awaitable[ServedModel]]],
) -> Route:
    return Route(
        path=f"/models/{verb}",
        resource=lambda context: ModelActionResource(act(context)),
        access="models:write",
        operations=(_action_operation(summary),),
    )


def _action_operation(summary: str) -> Operation:
    return Operation(
        method="post",
        summary=summary,
        body=ModelChoice,
        answer=ModelStatus,
        errors=LOAD_ERRORS,
    )


ROUTES = (
    Route(
        path="/v1/models",
        aliases=("/models",),
        resource=lambda context: ModelsResource(
            context.services.inference.models, context.services.catalog, context.services.router
        ),
        access="models:read",
        operations=(
            Operation(
                method="get",
                summary="List the served models",
                answer=ModelList,
                query=(
                    Query(name="limit", schema={"type": "integer", "minimum": 1, "maximum": MAX_MODELS}),
                    Query(name="after_id", schema={"type": "string"}),
                    Query(name="before_id", schema={"type": "string"}),
                ),
            ),
        ),
    ),
    Route(
        path="/v1/models/{name:path}",
        resource=lambda context: ModelResource(
            context.services.inference.models, context.services.catalog, context.services.router
        ),
        access="models:read",
        operations=(Operation(method="get", summary="Get a served model", answer=Model, errors=(404,)),),
    ),
    Route(
        path="/models/load",
        resource=lambda context: ModelLoadResource(context.services.inference.models),
        access="models:write",
        operations=(
            replace(
                _action_operation("Load a model; with `stream`, report the progress"),
                body=LoadChoice,
                query=(Query(name="stream", schema={"type": "boolean"}),),
                events=(LoadEvent, ModelStatus, Problem),
            ),
        ),
    ),
    _action("unload", "Unload a model", lambda context: context.services.inference.models.unload),
    _action(
        "pin",
        "Pin a model in memory",
        lambda context: partial(context.services.inference.models.pin, is_pinned=True),
    ),
    _action(
        "unpin",
        "Allow a pinned model to be unloaded",
        lambda context: partial(context.services.inference.models.pin, is_pinned=False),
    ),
    Route(
        path="/library",
        resource=lambda context: LibraryResource(context.services.catalog, context.services.inference.models),
        access="models:read",
        operations=(
            Operation(
                method="get",
                summary="List the models on this machine",
                answer=LibraryList,
                query=(Query(name="refresh", schema={"type": "string"}),),
            ),
        ),
    ),
    Route(
        path="/library/hub",
        resource=lambda context: HubSearchResource(context.services.catalog),
        # The server sends a request to the hub.
        access="models:write",
        operations=(
            Operation(
                method="get",
                summary="Search the hub for models in the MLX format",
                answer=HubModelList,
                query=(Query(name="search", schema={"type": "string"}),),
                errors=(400, 403),
            ),
        ),
    ),
    Route(
        path="/downloads",
        resource=lambda context: DownloadsResource(context.services.catalog),
        access="models:write",
        operations=(
            Operation(
                method="get", summary="List downloads, also those of other processes", answer=DownloadList
            ),
            _START_DOWNLOAD,
        ),
    ),
    Route(
        path="/downloads/{repository:path}",
        resource=lambda context: DownloadResource(context.services.catalog),
        access="models:write",
        operations=(
            Operation(
                method="delete",
                summary="Cancel a download, or take one that has ended off the list",
                answer=DownloadView,
                errors=(403, 404, 409),
            ),
        ),
    ),
    Route(
        path="/fit",
        resource=lambda context: FitResource(context.services.catalog, context.services.inference.models),
        access="models:read",
        operations=(
            Operation(
                method="get",
                summary="Estimate whether a model fits this machine",
                answer=FitView,
                other_answers=(FitList,),
                query=(_MODEL, _CONTEXT, Query(name="sku_matrix", schema={"type": "string"})),
                errors=(404,),
            ),
        ),
    ),
)
