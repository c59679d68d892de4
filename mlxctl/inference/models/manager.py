"""Models of this server, their state and leases. Event-loop thread only."""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Literal

from mlxctl.engine import EngineClient
from mlxctl.formats.adapters.answer_reader import AnswerReader
from mlxctl.inference.call_context import CallContext
from mlxctl.inference.models.eviction import ModelShortage
from mlxctl.inference.models.leases import Lease
from mlxctl.inference.models.loader import ModelLoader
from mlxctl.inference.models.lora_registry import LoraRegistry, ServedAdapter
from mlxctl.inference.models.maintenance import ModelMaintenance
from mlxctl.inference.models.model_states import LoadProgress, ModelStates, ModelStats
from mlxctl.inference.models.purposes import check_purpose
from mlxctl.inference.models.refresh import ModelRefresh
from mlxctl.inference.models.registry import ModelRegistry
from mlxctl.inference.models.residency import ModelResidency
from mlxctl.inference.models.served_model import ServedModel, UnusableModel
from mlxctl.inference.models.startup_probe import StartupProbe
from mlxctl.inference.preparation import PackedRequest, PreparationPool
from mlxctl.inference.session import ModelSession
from mlxctl.ir import GenerationRequest, KeepAlive, Purpose
from mlxctl.ir.allowed_models import EVERY_MODEL, AllowedModels
from mlxctl.ir.errors import (
    BrokenModel,
    MlxctlError,
    ModelError,
    ModelLoading,
    ModelUnavailable,
    UnknownModel,
)
from mlxctl.ir.timed_phases import timed
from mlxctl.state.settings import PoolSettings

_log = logging.getLogger(__name__)

RouteResult = Literal["routed", "unknown", "unavailable", "refused"]
"""Result of resolving a request's model; a refused request may work later, or with another model."""


class Models:
    """The models of this server: names, loading on demand, eviction.

    See `ModelResidency` for the order. The first usable model of the registry's `at_start` is loaded with the
    engine, also after a restart. Models that a caller may not use are unknown to it: methods that name a
    model take the `call`, those that list models the `allowed` ones.
    """

    def __init__(
        self,
        engine: EngineClient,
        preparation: PreparationPool,
        registry: ModelRegistry,
        lora: LoraRegistry,
        *,
        settings: PoolSettings,
        max_waiting: int,
        startup_probe: StartupProbe | None = None,
        refresh: ModelRefresh | None = None,
    ) -> None:
        self._engine = engine
        self._registry = registry
        self._startup_probe = startup_probe
        self._refresh = refresh
        self.lora = lora
        self._loader = ModelLoader(engine, preparation, registry, max_models=settings.max_models)
        pins = frozenset(own_name for name in settings.pins if (own_name := registry.own_name(name)))
        self._residency = ModelResidency(
            self._loader, max_waiting=max_waiting, ttl_seconds=settings.ttl_seconds, pins=pins
        )
        self._maintenance = ModelMaintenance(engine, registry, self._residency, preloads=settings.preload)
        self.is_open = False
        self.on_update: Callable[[], Awaitable[None]] | None = None
        """Called after the models were brought up to date, before they are listed."""
        self.is_elsewhere: Callable[[str], bool] = lambda _: False
        """Whether another server has a model of this name, so that none here answers to it."""
        self._num_routes: Counter[tuple[str, RouteResult]] = Counter()
        self._states = ModelStates(
            engine,
            registry,
            self._loader,
            self._residency,
            max_models=settings.max_models,
            num_requests=lambda name: self._num_routes[name, "routed"],
            startup_probe=startup_probe,
        )

    async def start(self) -> None:
        """Start the engine with the first usable model.

        Raises ModelError if none is, EngineDied.
        """
        if self._startup_probe is not None:
            await self._startup_probe.run()
        failures: dict[str, ModelError] = {}
        for name in self._registry.at_start:
            try:
                await self._loader.start(self._registry.model(name))
                break
            except ModelError as error:
                failures[name] = error
        else:
            _raise_if_none_is_usable(list(failures.values()), num_models=len(self._registry.models))
            await self._loader.start(None)
        for name, failure in failures.items():
            self._residency.record_failure(name, failure)
        self.is_open = True
        self._maintenance.start()

    async def close(self) -> None:
        """Stop loading and unloading.

        Requests that wait for a model fail with ShuttingDown.
        """
        self._maintenance.stop()
        await self._residency.close()

    async def use(
        self, name: str, call: CallContext, *, purpose: Purpose = "text"
    ) -> tuple[ModelSession, Lease]:
        """Load the model of a request, by its registered name.

        Return it and a lease to release at the end. Raises UnknownModel, ModelUnavailable, CapacityError, and
        InvalidRequest for a model of another purpose.
        """
        try:
            model = self._registered(name, call, purpose)
            self._check_open()
            with nullcontext() if self._residency.is_ready(model.name) else timed("model_load"):
                lease = await self._residency.lease(model.name)
        except MlxctlError as error:
            self._num_routes[self._registry.own_name(name) or "", _route_result(error)] += 1
            if isinstance(error, ModelShortage):
                raise error.naming(call.models) from None
            raise
        self._num_routes[model.name, "routed"] += 1
        reader = self._loader.reader(model.name)
        assert reader is not None, "a leased model is loaded"
        return ModelSession(self._engine, reader, name=model.name), lease

    async def registered_name(self, name: str, call: CallContext, purpose: Purpose | None = None) -> str:
        """Return the registered name of the model that answers to `name`.

        It keeps the adapters of `name`. A name that no model answers to is returned as it is. Raises
        UnknownModel for a short form that stands for several models, ModelUnavailable.
        """
        call.record.name_model(name)
        if self.lora.names_adapter(name, call.models):
            return name
        if (found := await self._registry.look_up(name, call.models)) is not None:
            return found
        base, _, adapters = name.rpartition(":")
        mounted = {each.name for each in self.lora.adapters(call.models)}
        if mounted.issuperset(adapters.split("+")):
            found = await self._registry.look_up(base, call.models)
            found = found or self._registry.stand_in(base, call.models, purpose)
            return name if found is None else f"{found}:{adapters}"
        if self.is_elsewhere(name):
            return name
        return self._registry.stand_in(name, call.models, purpose) or name

    async def find(self, name: str, call: CallContext, purpose: Purpose | None = None) -> ServedModel:
        """Return the model that a request names, loaded or not.

        Without `purpose` it may be of any. Raises UnknownModel, ModelUnavailable, InvalidRequest.
        """
        return self._registered(await self.registered_name(name, call, purpose), call, purpose)

    def default(self, allowed: AllowedModels) -> str:
        """Return the text model of requests that name none: the first one."""
        models = self.served(allowed)
        found = (model.name for model in models if model.facts.purpose == "text")
        return next(found, models[0].name if models else "")

    def default_embedder(self, allowed: AllowedModels, *, reranks: bool) -> str:
        """Return the model of vector or score requests that name none.

        It is the first one of the purpose, if it `reranks` the first reranker.
        """
        models = [model for model in self.served(allowed) if model.facts.purpose == "embeddings"]
        fitting = [model for model in models if model.scores_pairs == reranks]
        found = (model.name for model in (*fitting, *models))
        return next(found, self.default(allowed))

    async def answering(self, name: str, call: CallContext) -> str:
        """Return the registered name of the text model that answers to `name`.

        It is the default one for "", and `name` itself if no model answers. Raises as `registered_name` does.
        """
        return await self.registered_name(name or self.default(call.models), call, "text")

    async def check(self, name: str, call: CallContext) -> str:
        """Check that requests for text can name this model or LoRA adapter.

        Returns its registered name. Raises UnknownModel, ModelUnavailable, InvalidRequest.
        """
        registered = await self.answering(name, call)
        if registered in call.models and not self.has(registered) and self.is_elsewhere(registered):
            return registered
        request = self.lora.apply(PackedRequest.of(GenerationRequest(model=registered)), call.models)
        await self.find(request.head.model, call, "text")
        return registered

    def own_name(self, name: str) -> str:
        """Return the own name of a requested model, without its adapters.

        A name that is not registered is returned as it is.
        """
        own_name = self._registry.own_name(name) or self._registry.own_name(name.rpartition(":")[0])
        # An adapter's name alone stands for its model, if only one model has it.
        bases = {adapter.base for adapter in self.lora.adapters(EVERY_MODEL) if adapter.name == name}
        return own_name or (bases.pop() if len(bases) == 1 else name)

    def has(self, name: str) -> bool:
        """Whether a model of this machine is registered under the name."""
        return self._registry.own_name(name) is not None

    def is_allowed(self, name: str, allowed: AllowedModels) -> bool:
        """Whether the model of this name, with or without adapters, is allowed."""
        return self.own_name(name) in allowed

    def is_library_model_allowed(self, allowed: AllowedModels, name: str, directory: Path) -> bool:
        """Whether a model of the library is allowed.

        It may be registered under another name. Any thread.
        """
        return (self._registry.own_name_in(directory) or name) in allowed

    async def reader(self, name: str, call: CallContext) -> AnswerReader:
        """Return the answer reader of a text model by its registered name.

        The model may be loaded or not. Raises what `use` does.
        """
        model = self._registered(name, call, "text")
        self._check_open()
        try:
            return await self._loader.any_reader(model.name)
        except ModelError as error:
            raise ModelUnavailable(name, error.without_path(name)) from None

    async def mount_adapter(self, name: str, path: str, base: str | None, call: CallContext) -> ServedAdapter:
        """Mount a LoRA adapter on a model.

        The model is loaded for it; None is the first model. Raises what `use` does, and Conflict.
        """
        _, lease = await self.use(self.lora.own_name(base, call.models), call)
        try:
            return await self.lora.add(name, path, base, call.models)
        finally:
            lease.release()

    def served(self, allowed: AllowedModels) -> tuple[ServedModel, ...]:
        """Return the model behind every name, in order of registration.

        The first of all is loaded at the start. Models of the library that are not loaded come last.
        """
        models = self._states.describe_all(self._registry.entries(allowed))
        return tuple(sorted(models, key=lambda model: model.from_library and model.memory is None))

    def problem(self, allowed: AllowedModels) -> str | None:
        """Return why models that an engine lost are still missing."""
        lost = self._engine.lost.items()
        return (
            "; ".join(
                f"model {name!r} could not be loaded again: {error.without_path(name)}"
                for name, error in lost
                if name in allowed
            )
            or None
        )

    def unusable(self, allowed: AllowedModels) -> tuple[UnusableModel, ...]:
        """Return configured models that cannot be read."""
        return self._registry.unusable(allowed)

    async def update(self) -> None:
        """Bring the models up to date: results of probing, and the library."""
        if self._refresh is not None:
            changed = await self._refresh.run(loaded=self._loader.sizes())
            for name in changed:
                try:
                    await self._loader.renew_reader(name)
                except ModelError as error:
                    _log.warning("model %r is used as before the probe: %s", name, error)
        if self.on_update is not None:
            await self.on_update()

    async def read_capabilities(self) -> None:
        """Update the models, and read tokenizers and templates of named ones.

        Those with unknown capabilities. A library has too many.
        """
        if self._startup_probe is not None and self._startup_probe.is_running:
            # Capabilities depend on the findings of the probe.
            return
        await self.update()
        for model in self._registry.models:
            if model.adapter_verdict is None and not model.from_library:
                try:
                    await self._loader.any_reader(model.name)
                except ModelError as error:
                    if self._residency.problem(model.name) is None:
                        self._residency.record_failure(model.name, error)

    async def load(self, name: str, call: CallContext) -> ServedModel:
        """Load the model into memory. Raises what `use` does."""
        model = await self.find(name, call)
        self._check_open()
        try:
            await self._residency.load(model.name)
        except ModelShortage as error:
            raise error.naming(call.models) from None
        return self._states.describe(name, model)

    async def load_progress(self, name: str, call: CallContext) -> LoadProgress:
        """Return the progress of loading a model.

        Raises UnknownModel, ModelUnavailable.
        """
        return self._states.load_progress(await self.find(name, call))

    async def unload(self, name: str, call: CallContext) -> ServedModel:
        """Unload a model that no request uses.

        Raises UnknownModel, ModelUnavailable, EngineError, CapacityError (ModelInUse).
        """
        model = await self.find(name, call)
        self._check_open()
        await self._residency.unload(model.name)
        return self._states.describe(name, model)

    def keep_alive(self, name: str, keep: KeepAlive | None, call: CallContext) -> None:
        """Set how long the model stays loaded without requests.

        Holds until it is unloaded. It concerns all callers, so it needs the scope `models:write`; without it,
        and for an unknown name, nothing changes.
        """
        own_name = self._registry.own_name(name)
        if keep is None or own_name is None or own_name not in call.models:
            return
        if "models:write" in call.caller.scopes:
            self._residency.keep_alive(own_name, keep.seconds)

    def keep_alive_if_new(self, name: str, keep: KeepAlive | None, call: CallContext) -> None:
        """Set how long a model stays loaded that is not loaded yet."""
        own_name = self.own_name(name)
        if keep is not None and keep.new_only and not self._residency.is_ready(own_name):
            self.keep_alive(own_name, keep, call)

    async def pin(self, name: str, call: CallContext, *, is_pinned: bool) -> ServedModel:
        """Exempt the model from eviction, or no longer. Raises UnknownModel, ModelUnavailable."""
        model = await self.find(name, call)
        (self._residency.pins.add if is_pinned else self._residency.pins.discard)(model.name)
        return self._states.describe(name, model)

    def stats(self, allowed: AllowedModels) -> ModelStats:
        """Return the models in memory and the counts of loads and evictions."""
        return self._states.stats(allowed)

    def num_routes(self, allowed: AllowedModels) -> Mapping[tuple[str, RouteResult], int]:
        """Return the numbers of requests by own name and result.

        The name is empty for an unknown model.
        """
        return {key: number for key, number in self._num_routes.items() if not key[0] or key[0] in allowed}

    def _registered(self, name: str, call: CallContext, purpose: Purpose | None = None) -> ServedModel:
        call.record.name_model(name)
        model = self._registry.resolve(name, call.models)
        if purpose is not None:
            check_purpose(model, name, purpose, self._registry.entries(call.models))
        return model

    def _check_open(self) -> None:
        if self.is_open:
            return
        if self._startup_probe is not None and self._startup_probe.is_running:
            raise ModelLoading(
                "a model that was never probed is probed before its first use (--probe-unknown); "
                "try again later",
                retry_after_seconds=10.0,
            )
        raise ModelLoading("the model is still being loaded; try again in a moment", retry_after_seconds=2.0)


def _route_result(error: MlxctlError) -> RouteResult:
    match error:
        case UnknownModel():
            return "unknown"
        case ModelUnavailable():
            return "unavailable"
        case _:
            return "refused"


def _raise_if_none_is_usable(failures: Sequence[ModelError], *, num_models: int) -> None:
    if len(failures) == num_models == 1:
        raise failures[0]
    if failures and len(failures) == num_models:
        raise BrokenModel(failures[0].path, "no model can be served: " + "; ".join(map(str, failures)))
