"""LM Studio's routes: model lists, and answers with statistics."""

from falcon.asgi import Request, Response
from msgspec import UNSET

from mlxctl.inference import ServedModel
from mlxctl.inference.call_context import CallContext
from mlxctl.inference.models.manager import Models
from mlxctl.ir.errors import UnknownModel
from mlxctl.library.catalog import Catalog
from mlxctl.protocols import ModelSummary
from mlxctl.protocols.compat.lm_studio.models import (
    LMStudioCapabilities,
    LMStudioInstance,
    LMStudioInstanceConfig,
    LMStudioModel,
    LMStudioModels,
    LMStudioNativeModel,
    LMStudioNativeModels,
    LMStudioQuantization,
)
from mlxctl.server.http.answer import answer
from mlxctl.server.policy.caller import allowed_models, call_of


class ModelDescriber:
    """Describes models in answers."""

    def __init__(self, models: Models, catalog: Catalog) -> None:
        self._models = models
        self._catalog = catalog

    async def __call__(self, name: str, call: CallContext) -> ModelSummary:
        """Describe the model of this name; an unknown one is empty."""
        own_name = self._models.own_name(name)
        served = next((each for each in self._models.served(call.models) if each.name == own_name), None)
        if served is None:
            return ModelSummary()
        described = await self._catalog.describe(served.name, served.facts.path)
        return ModelSummary(
            architecture=served.facts.model_type,
            quantization=described.quantization_label,
            context_length=served.context_length,
        )


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
        models = {model.name: model for model in self._models.served(allowed)}
        if name is not None and lora.base_of(name, allowed) not in models:
            raise UnknownModel(name, tuple(models))
        adapters = [each.full_name for each in lora.adapters(allowed) if each.base in models]
        # LM Studio has no kind of model for speech.
        listed = [each.name for each in models.values() if each.facts.purpose != "transcription"]
        wanted = [*listed, *adapters] if name is None else [name]
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
        models = {
            model.name: model
            for model in self._models.served(allowed)
            if model.facts.purpose != "transcription"
        }
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
