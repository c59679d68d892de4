"""GET /v1/models and /v1/models/{name}, for clients of every protocol."""

import asyncio
from dataclasses import replace

from falcon.asgi import Request, Response

from mlxctl.formats.adapters.media.pdf_files import reads_pdfs
from mlxctl.inference import ServedModel, UnusableModel
from mlxctl.inference.models.manager import Models
from mlxctl.ir.allowed_models import AllowedModels
from mlxctl.ir.errors import UnknownModel
from mlxctl.library import ModelDescription
from mlxctl.library.catalog import Catalog
from mlxctl.protocols import ModelCard, ModelPage, encode_model, encode_model_list
from mlxctl.server.http.answer import answer
from mlxctl.server.policy.caller import allowed_models, call_of


class ModelsResource:
    """The models, on one page unless the request asks for several."""

    def __init__(self, models: Models, catalog: Catalog) -> None:
        self._models = models
        self._catalog = catalog

    async def on_get(self, request: Request, response: Response) -> None:
        """List served models, loaded or not, and unusable ones. Raises InvalidRequest."""
        page = ModelPage.read(
            limit=request.get_param("limit"),
            after_id=request.get_param("after_id"),
            before_id=request.get_param("before_id"),
        )
        await self._models.read_capabilities()
        cards = await _cards(self._models, self._catalog, allowed_models(request))
        answer(response, encode_model_list(cards, page))


class ModelResource:
    """One model; its name may contain slashes."""

    def __init__(self, models: Models, catalog: Catalog) -> None:
        self._models = models
        self._catalog = catalog

    async def on_get(self, request: Request, response: Response, name: str) -> None:
        """Return the model. Raises UnknownModel."""
        call = call_of(request)
        allowed = call.models
        registered = await self._models.registered_name(name, call)
        await self._models.read_capabilities()
        cards = {card.id: card for card in await _cards(self._models, self._catalog, allowed)}
        card = cards.get(registered) or cards.get(self._models.own_name(registered))
        if card is None:
            raise UnknownModel(name, tuple(model.name for model in self._models.served(allowed)))
        answer(response, encode_model(card))


async def _cards(models: Models, catalog: Catalog, allowed: AllowedModels) -> list[ModelCard]:
    """Return served models, LoRA adapters, the library, and unusable models."""
    cards = [
        replace(_card(model, await _described(catalog, model)), root=models.own_name(model.name))
        for model in models.served(allowed)
    ]
    by_name = {card.id: card for card in cards}
    adapters = [
        replace(by_name[each.base], id=each.full_name, parent=each.base)
        for each in models.lora.adapters(allowed)
        if each.base in by_name
    ]
    usable = sorted([*cards, *adapters], key=lambda card: card.from_library and card.state != "loaded")
    return [*usable, *map(_unusable, models.unusable(allowed))]


async def _described(catalog: Catalog, model: ServedModel) -> ModelDescription:
    # The first call reads files, so it runs in a thread.
    return await asyncio.to_thread(catalog.described, model.name, model.facts.path)


def _card(model: ServedModel, described: ModelDescription) -> ModelCard:
    weights, packing = described.weights, described.quantization
    # Models that embed or transcribe may have a chat template, too.
    chats = model.facts.purpose == "text"
    adapter = model.adapter_verdict if chats else None
    return ModelCard(
        id=model.name,
        created=model.created,
        context_length=model.facts.context_length,
        dimensions=model.facts.dimensions,
        # That of the library is only read when it is loaded.
        supports_tools=chats
        and bool(described.takes_tools if model.supports_tools is None else model.supports_tools),
        supports_thinking=chats and bool(model.supports_thinking),
        supports_images=adapter is not None and adapter.takes_images,
        supports_documents=chats and reads_pdfs(),
        adapter=adapter,
        is_demo=model.is_demo,
        from_library=model.from_library,
        kind=described.detection.kind,
        family=described.detection.family,
        num_parameters=weights.num_parameters if weights else None,
        quantization=packing.label if packing else None,
        num_bytes=model.facts.weights_bytes,
        experts=described.experts,
        state=model.state,
        problem=model.problem,
        is_pinned=model.is_pinned,
        verdicts=model.verdicts,
        speech=model.facts.speech,
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
