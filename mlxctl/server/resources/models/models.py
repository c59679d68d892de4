"""GET /v1/models and /v1/models/{name}, for clients of every protocol."""

from falcon.asgi import Request, Response
from msgspec.structs import replace

from mlxctl.formats.adapters.media.pdf_files import reads_pdfs
from mlxctl.inference import ServedModel
from mlxctl.inference.models.manager import Models
from mlxctl.inference.remote import RemoteModel
from mlxctl.inference.routing import RemoteServer, Router
from mlxctl.ir.allowed_models import AllowedModels
from mlxctl.ir.errors import UnknownModel
from mlxctl.library import ModelDescription
from mlxctl.library.catalog import Catalog
from mlxctl.protocols import Model, ModelPage
from mlxctl.protocols.model_list import speech_facts
from mlxctl.server.http.answer import answer
from mlxctl.server.policy.caller import allowed_models, call_of


class ModelsResource:
    """The models, on one page unless the request asks for several."""

    def __init__(self, models: Models, catalog: Catalog, router: Router) -> None:
        self._models = models
        self._catalog = catalog
        self._router = router

    async def on_get(self, request: Request, response: Response) -> None:
        """List served models, loaded or not, and unusable ones. Raises InvalidRequest."""
        page = ModelPage.read(
            limit=request.get_param("limit"),
            after_id=request.get_param("after_id"),
            before_id=request.get_param("before_id"),
        )
        await self._models.read_capabilities()
        answer(
            response,
            page.of(await _listed(self._models, self._catalog, self._router, allowed_models(request))),
        )


class ModelResource:
    """One model; its name may contain slashes."""

    def __init__(self, models: Models, catalog: Catalog, router: Router) -> None:
        self._models = models
        self._catalog = catalog
        self._router = router

    async def on_get(self, request: Request, response: Response, name: str) -> None:
        """Return the model. Raises UnknownModel."""
        call = call_of(request)
        allowed = call.models
        registered = await self._models.registered_name(name, call)
        await self._models.read_capabilities()
        models = {
            model.id: model for model in await _listed(self._models, self._catalog, self._router, allowed)
        }
        found = models.get(registered) or models.get(self._models.own_name(registered))
        if found is None:
            raise UnknownModel(name, tuple(model.name for model in self._models.served(allowed)))
        answer(response, found)


async def _listed(models: Models, catalog: Catalog, router: Router, allowed: AllowedModels) -> list[Model]:
    """Return models: served, adapters, library, of remotes, and unusable ones."""
    served = [
        _served(model, await catalog.describe(model.name, model.facts.path), models.own_name(model.name))
        for model in models.served(allowed)
    ]
    by_name = {model.id: model for model in served}
    adapters = [
        replace(by_name[each.base], id=each.full_name, display_name=each.full_name, parent=each.base)
        for each in models.lora.adapters(allowed)
        if each.base in by_name
    ]
    usable = sorted([*served, *adapters], key=lambda model: model.from_library and model.state != "loaded")
    unusable = [
        Model.of(model.name, state="failed", problem=model.reason) for model in models.unusable(allowed)
    ]
    remote = [_remote(server, model) for server, model in router.remote_models(allowed)]
    return [*usable, *remote, *unusable]


def _remote(server: RemoteServer, model: RemoteModel) -> Model:
    return Model.of(
        model.name,
        context_length=model.context_length,
        # Servers other than mlxctl list no abilities.
        supports_tools=model.supports_tools is not False,
        supports_thinking=bool(model.supports_thinking),
        supports_images=bool(model.supports_images),
        supports_vision=model.supports_images,
        kind=model.kind or "text",
        num_parameters=model.num_parameters,
        quantization=model.quantization,
        state="failed" if server.problem else "loaded" if model.is_loaded else "not_loaded",
        problem=server.problem,
        remote=server.name,
    )


def _served(model: ServedModel, described: ModelDescription, own_name: str) -> Model:
    # Models that embed or transcribe may have a chat template, too.
    chats = model.facts.purpose == "text"
    adapter = model.adapter_verdict if chats else None
    return Model.of(
        model.name,
        created=model.created,
        context_length=model.facts.context_length,
        dimensions=model.facts.dimensions,
        # That of the library is only read when it is loaded.
        supports_tools=chats
        and bool(described.takes_tools if model.supports_tools is None else model.supports_tools),
        supports_thinking=chats and bool(model.supports_thinking),
        supports_images=adapter is not None and adapter.takes_images,
        supports_documents=chats and reads_pdfs(),
        **model.media_support,
        adapter=adapter,
        is_demo=model.is_demo,
        from_library=model.from_library,
        kind=described.detection.kind,
        family=described.detection.family,
        num_parameters=described.num_parameters,
        quantization=described.quantization_label,
        size_bytes=model.facts.weights_bytes,
        experts=described.experts,
        state=model.state,
        problem=model.problem,
        cache_limits=model.memory and model.memory.cache_limits,
        pinned=model.is_pinned,
        probed=dict(model.verdicts) or None,
        speech=model.facts.speech and speech_facts(model.facts.speech),
        root=own_name,
    )
