"""GET /v1/models and /v1/models/{name}, for clients of every protocol."""

import asyncio

import falcon
from falcon.asgi import Request, Response

from mlxctl.errors import UnknownModel
from mlxctl.inference import InferenceService, ServedModel, UnusableModel
from mlxctl.models import ModelDescription
from mlxctl.models.catalog import Catalog
from mlxctl.protocols import ModelCard, encode_model, encode_model_list


class ModelsResource:
    """All models in one page."""

    def __init__(self, inference: InferenceService, catalog: Catalog) -> None:
        self._inference = inference
        self._catalog = catalog

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """List served models, loaded or not, and unusable ones."""
        await self._inference.manager.read_capabilities()
        served = self._inference.models()
        cards = [_card(model, await _described(self._catalog, model)) for model in served]
        response.data = encode_model_list(
            cards + [_unusable(model) for model in self._inference.manager.unusable]
        )
        response.content_type = falcon.MEDIA_JSON

    on_head = on_get


class ModelResource:
    """One model; its name may contain slashes."""

    def __init__(self, inference: InferenceService, catalog: Catalog) -> None:
        self._inference = inference
        self._catalog = catalog

    async def on_get(self, request: Request, response: Response, name: str) -> None:  # noqa: ARG002
        """Return the model. Raises UnknownModel."""
        await self._inference.manager.read_capabilities()
        models = {model.name: model for model in self._inference.models()}
        unusable = {model.name: _unusable(model) for model in self._inference.manager.unusable}
        if name not in models and name not in unusable:
            raise UnknownModel(name, tuple(models))
        response.data = encode_model(
            unusable.get(name) or _card(models[name], await _described(self._catalog, models[name]))
        )
        response.content_type = falcon.MEDIA_JSON

    on_head = on_get


async def _described(catalog: Catalog, model: ServedModel) -> ModelDescription:
    # Reads files the first time, so it runs in a thread.
    return await asyncio.to_thread(catalog.described, model.name, model.facts.path)


def _card(model: ServedModel, described: ModelDescription) -> ModelCard:
    weights, packing = described.weights, described.quantization
    return ModelCard(
        id=model.name,
        created=model.created,
        context_length=model.facts.context_length,
        dimensions=model.facts.dimensions,
        supports_tools=bool(model.supports_tools),
        supports_thinking=bool(model.supports_thinking),
        supports_images=model.adapter_verdict is not None and model.adapter_verdict.takes_images,
        adapter=model.adapter_verdict,
        is_demo=model.is_demo,
        kind=described.detection.kind,
        family=described.detection.family,
        num_parameters=weights.num_parameters if weights else None,
        quantization=packing.label if packing else None,
        num_bytes=model.facts.weights_bytes,
        state=model.state,
        problem=model.problem,
        is_pinned=model.is_pinned,
        verdicts=model.verdicts,
    )


def _unusable(model: UnusableModel) -> ModelCard:
    return ModelCard(
        id=model.name,
        created=0,
        context_length=None,
        supports_tools=False,
        supports_thinking=False,
        state="failed",
        problem=model.reason,
    )
