"""LM Studio's model lists, and the routes of its models."""

from collections.abc import Callable
from typing import Any

from falcon.asgi import Request, Response
from msgspec import UNSET

from mlxctl.inference import ServedModel
from mlxctl.inference.models.manager import Models
from mlxctl.ir.allowed_models import AllowedModels
from mlxctl.ir.errors import UnknownModel
from mlxctl.library.catalog import Catalog
from mlxctl.protocols import OPENAI
from mlxctl.protocols.compat.lm_studio.models import (
    LMStudioCapabilities,
    LMStudioDownload,
    LMStudioDownloadRequest,
    LMStudioInstance,
    LMStudioInstanceConfig,
    LMStudioLoaded,
    LMStudioLoadRequest,
    LMStudioModel,
    LMStudioModels,
    LMStudioNativeModel,
    LMStudioNativeModels,
    LMStudioQuantization,
    LMStudioUnload,
)
from mlxctl.server.compat.lm_studio_loading import (
    LMStudioDownloadResource,
    LMStudioDownloadStatusResource,
    LMStudioLoadResource,
    LMStudioUnloadResource,
)
from mlxctl.server.http.answer import answer
from mlxctl.server.http.route import LOAD_ERRORS, Operation, Route, RouteContext
from mlxctl.server.policy.caller import allowed_models, call_of


class LMStudioModelsResource:
    """The served models, or the named one."""

    def __init__(self, models: Models, catalog: Catalog) -> None:
        self._models = models
        self._catalog = catalog

    async def on_get(self, request: Request, response: Response, name: str | None = None) -> None:
        """Describe the models. Raises UnknownModel."""
        lora, call = self._models.lora, call_of(request)
        allowed = call.models
        if name is not None:
            name = await self._models.registered_name(name, call)
        await self._models.read_capabilities()
        models = _listed(self._models, allowed)
        if name is not None and lora.base_of(name, allowed) not in models:
            raise UnknownModel(name, tuple(models))
        adapters = [each.full_name for each in lora.adapters(allowed) if each.base in models]
        wanted = [*models, *adapters] if name is None else [name]
        described = [await self._describe(models[lora.base_of(each, allowed)], each) for each in wanted]
        answer(response, LMStudioModels(data=described) if name is None else described[0])

    async def _describe(self, model: ServedModel, name: str) -> LMStudioModel:
        """Describe a model, or a LoRA adapter of this name on it."""
        described = await self._catalog.describe(model.name, model.facts.path)
        embeds = model.facts.purpose == "embeddings"
        return LMStudioModel(
            id=name,
            type="embeddings" if embeds else "vlm" if model.supports_images else "llm",
            arch=model.facts.model_type,
            quantization=described.quantization_label,
            state="loaded" if model.state == "loaded" else "not-loaded",
            max_context_length=model.context_length,
            capabilities=["tool_use"] if model.supports_tools else [],
        )


class LMStudioNativeModelsResource:
    """GET /api/v1/models: the served models with their LoRA adapters."""

    def __init__(self, models: Models, catalog: Catalog) -> None:
        self._models = models
        self._catalog = catalog

    async def on_get(self, request: Request, response: Response) -> None:
        """Describe the models."""
        await self._models.read_capabilities()
        allowed = allowed_models(request)
        models = _listed(self._models, allowed)
        adapters = [
            (each.full_name, models[each.base])
            for each in self._models.lora.adapters(allowed)
            if each.base in models
        ]
        described = [await self._describe(model, name) for name, model in (*models.items(), *adapters)]
        answer(response, LMStudioNativeModels(described))

    async def _describe(self, model: ServedModel, name: str) -> LMStudioNativeModel:
        described = await self._catalog.describe(model.name, model.facts.path)
        packing, parameters = described.quantization, described.num_parameters
        embeds = model.facts.purpose == "embeddings"
        loaded = [LMStudioInstance(name, LMStudioInstanceConfig(model.context_length))]
        return LMStudioNativeModel(
            type="embedding" if embeds else "llm",
            key=name,
            display_name=name,
            architecture=model.facts.model_type,
            quantization=None
            if packing is None
            else LMStudioQuantization(name=packing.label, bits_per_weight=packing.bits),
            size_bytes=model.facts.weights_bytes,
            params_string=None if parameters is None else f"{parameters / 1e9:.1f}B",
            loaded_instances=loaded if model.state == "loaded" else [],
            max_context_length=model.context_length,
            capabilities=UNSET
            if embeds
            else LMStudioCapabilities(
                vision=bool(model.supports_images), trained_for_tool_use=bool(model.supports_tools)
            ),
        )


def _listed(models: Models, allowed: AllowedModels) -> dict[str, ServedModel]:
    """Return the served models by name.

    LM Studio has no kind of model for audio.
    """
    return {
        model.name: model for model in models.served(allowed) if model.facts.purpose in ("text", "embeddings")
    }


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
