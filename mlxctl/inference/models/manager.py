"""The models of this server as a whole: which there are, which are in memory, who may use them.

Event-loop thread only.
"""

import asyncio
import logging
import time
from collections.abc import Sequence

from mlxctl.adapters.answer_reader import AnswerReader
from mlxctl.engine import EngineClient
from mlxctl.errors import (
    BrokenModel,
    CapacityError,
    InvalidRequest,
    MlxctlError,
    ModelError,
    ModelLoading,
    ModelUnavailable,
)
from mlxctl.inference.models.eviction import Resident
from mlxctl.inference.models.facts import PoolFacts, ResidentFacts
from mlxctl.inference.models.lease import Lease
from mlxctl.inference.models.loader import ModelLoader
from mlxctl.inference.models.registry import ModelRegistry
from mlxctl.inference.models.residency import ModelResidency
from mlxctl.inference.models.served_model import ModelToServe, ServedModel, UnusableModel
from mlxctl.inference.preparation import PreparationPool
from mlxctl.ir import Purpose
from mlxctl.settings import PoolSettings

_MAX_SWEEP_PAUSE_SECONDS = 5.0
_FIRST_RETRY_PAUSE_SECONDS, _MAX_RETRY_PAUSE_SECONDS = 1.0, 60.0

_MADE_FOR: dict[Purpose, str] = {
    "embeddings": "makes embeddings and writes no text; send texts to /v1/embeddings, or name another model",
    "transcription": "writes down speech and nothing else; send sound to /v1/audio/transcriptions, or name another model",
}
_WRITES_TEXT: dict[Purpose, str] = {
    "embeddings": "writes text, and the states of such a model make poor vectors; name an embedding model",
    "transcription": "writes text and hears nothing; name a model that writes down speech",
}

_log = logging.getLogger(__name__)


class ModelManager:
    """Models that are loaded when first asked for and make way for each other; see `Residents` for who and
    when.

    The first of `at_start` that can be used is loaded with the engine, and again whenever the engine had to
    be started again.
    """

    def __init__(
        self,
        engine: EngineClient,
        preparation: PreparationPool,
        registry: ModelRegistry,
        *,
        at_start: Sequence[ModelToServe],
        settings: PoolSettings,
        max_waiting: int,
    ) -> None:
        self._engine = engine
        self._registry = registry
        self._at_start = at_start
        self._settings = settings
        self._loader = ModelLoader(engine, preparation, registry, max_models=settings.max_models)
        pins = frozenset(own_name for name in settings.pins if (own_name := registry.own_name(name)))
        self._residents = ModelResidency(
            self._loader, max_waiting=max_waiting, ttl_seconds=settings.ttl_seconds, pins=pins
        )
        self._created = int(time.time())
        self._background: list[asyncio.Task[None]] = []
        self.is_open = False

    async def start(self) -> None:
        """Bring the engine up, with a model if one is to be loaded at the start.

        Raises ModelError when none can be, EngineDied.
        """
        failures: dict[str, ModelError] = {}
        for model in self._at_start:
            try:
                await self._loader.start(model)
                break
            except ModelError as error:
                failures[model.name] = error
        else:
            _raise_if_none_is_left(list(failures.values()), num_models=len(self._registry.models))
            await self._loader.start(None)
        for name, failure in failures.items():
            self._residents.note_failure(name, failure)
        self.is_open = True
        self._begin_in_background()

    async def close(self) -> None:
        """Load and unload no more; who waits for a model is told that the server shuts down."""
        for task in self._background:
            task.cancel()
        await self._residents.close()

    async def use(self, name: str, *, purpose: Purpose = "text") -> tuple[AnswerReader, Lease]:
        """Return the adapter of the model that a request names, and a lease, which must be released at the
        end.

        Loads the model if need be. Raises UnknownModel, ModelUnavailable, CapacityError, and InvalidRequest
        for a model that was made for something else.
        """
        model = await self.find(name, purpose)
        self._check_open()
        lease = await self._residents.lease(model.name)
        adapter = self._loader.adapter(model.name)
        assert adapter is not None, "who has a lease has a model"
        return adapter, lease

    async def find(self, name: str, purpose: Purpose) -> ModelToServe:
        """Return the model that a request names, loaded or not.

        Raises UnknownModel, ModelUnavailable, InvalidRequest.
        """
        model = await self._registry.resolve(name)
        _check_purpose(model, name, purpose)
        return model

    async def adapter(self, name: str) -> AnswerReader:
        """Return the adapter of a model that writes text, which need not be loaded.

        Raises what `use` does.
        """
        model = await self.find(name, "text")
        self._check_open()
        try:
            return await self._loader.any_adapter(model.name)
        except ModelError as error:
            raise ModelUnavailable(name, error.without_path(name)) from None

    def served(self) -> tuple[ServedModel, ...]:
        """Every name that requests can give, with the model behind it, in the order of registration."""
        return tuple(self._served(name, model) for name, model in self._registry.entries)

    @property
    def problem(self) -> str | None:
        """Why the server is not what it was at the start: a model was lost with an engine and is not back
        yet.
        """
        lost = self._engine.lost.items()
        return (
            "; ".join(f"model {name!r} did not come back: {error.without_path(name)}" for name, error in lost)
            or None
        )

    @property
    def unusable(self) -> tuple[UnusableModel, ...]:
        """What was registered and cannot be read."""
        return self._registry.unusable

    async def look_at_all(self) -> None:
        """Find out what the models can do that were not loaded yet."""
        for model in self._registry.models:
            if self._loader.support(model.name) is None:
                try:
                    await self._loader.any_adapter(model.name)
                except ModelError as error:
                    if self._residents.problem(model.name) is None:
                        self._residents.note_failure(model.name, error)

    async def load(self, name: str) -> ServedModel:
        """Have the model in memory. Raises what `use` does."""
        model = await self._registry.resolve(name)
        self._check_open()
        await self._residents.load(model.name)
        return self._served(name, model)

    async def unload(self, name: str) -> ServedModel:
        """Have the model out of memory.

        Raises UnknownModel, ModelUnavailable, EngineError, CapacityError (ModelInUse).
        """
        model = await self._registry.resolve(name)
        self._check_open()
        await self._residents.unload(model.name)
        return self._served(name, model)

    async def pin(self, name: str, *, is_pinned: bool) -> ServedModel:
        """Keep the model in memory once it is there, or let it make way again.

        Raises UnknownModel, ModelUnavailable.
        """
        model = await self._registry.resolve(name)
        (self._residents.pins.add if is_pinned else self._residents.pins.discard)(model.name)
        return self._served(name, model)

    def facts(self) -> PoolFacts:
        """Return what is in memory and who waits."""
        now = time.monotonic()
        return PoolFacts(
            num_waiting=self._residents.num_waiting,
            num_loads=self._residents.num_loads,
            num_evictions=self._residents.num_evictions,
            max_models=self._settings.max_models,
            models=tuple(self._resident_facts(resident, now) for resident in self._residents.residents()),
        )

    def _resident_facts(self, resident: Resident, now: float) -> ResidentFacts:
        loaded = self._engine.loaded[resident.name]
        return ResidentFacts(
            name=resident.name,
            weights_bytes=resident.num_bytes,
            kv_bytes_per_token=loaded.kv_bytes_per_token,
            kv_bits=loaded.kv_bits,
            num_requests=resident.num_leases,
            idle_seconds=0.0 if resident.num_leases else round(now - resident.used_at, 1),
            is_pinned=resident.is_pinned,
        )

    def _check_open(self) -> None:
        if not self.is_open:
            raise ModelLoading(
                "the model is still being loaded; try again in a moment", retry_after_seconds=2.0
            )

    def _served(self, name: str, model: ModelToServe) -> ServedModel:
        support = self._loader.support(model.name)
        return ServedModel(
            name=name,
            facts=model.facts,
            created=self._created,
            supports_tools=support.tools if support else None,
            supports_thinking=support.thinking if support else None,
            adapter_verdict=support.verdict if support else None,
            is_demo=model.is_demo,
            state=self._residents.state(model.name),
            problem=self._residents.problem(model.name),
            is_pinned=model.name in self._residents.pins,
            verdicts=model.verdicts,
        )

    def _begin_in_background(self) -> None:
        self._background.append(asyncio.create_task(self._bring_back(), name="bring-back"))
        if self._settings.preload:
            self._background.append(asyncio.create_task(self._preload(), name="preload"))
        if self._settings.ttl_seconds is not None:
            self._background.append(
                asyncio.create_task(self._sweep(self._settings.ttl_seconds), name="model-sweep")
            )

    async def _preload(self) -> None:
        for model in self._registry.models:
            if self._residents.is_here(model.name):
                continue
            if not self._residents.has_room_for(model.name):
                _log.warning(
                    "model %r is not loaded at the start: there is no room for it beside the others",
                    model.name,
                )
                continue
            try:
                await self._residents.load(model.name)
            except (ModelUnavailable, CapacityError) as error:
                _log.warning("%s", error)

    async def _bring_back(self) -> None:
        """Try again and again to load the models that were lost with an engine, each time after a longer
        pause.
        """
        pause_seconds = _FIRST_RETRY_PAUSE_SECONDS
        while True:
            if not self._engine.lost:
                pause_seconds = _FIRST_RETRY_PAUSE_SECONDS
                await self._engine.wait_lost()
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, _MAX_RETRY_PAUSE_SECONDS)
            for name in tuple(self._engine.lost):
                try:
                    await self._residents.load(name)
                except MlxctlError as error:
                    _log.warning("model %r is not back yet: %s", name, error)

    async def _sweep(self, ttl_seconds: float) -> None:
        while True:
            await asyncio.sleep(min(ttl_seconds / 4, _MAX_SWEEP_PAUSE_SECONDS))
            await self._residents.sweep()


def _check_purpose(model: ModelToServe, name: str, purpose: Purpose) -> None:
    if model.facts.purpose == purpose:
        return
    what = _WRITES_TEXT[purpose] if model.facts.purpose == "text" else _MADE_FOR[model.facts.purpose]
    raise InvalidRequest(f"model {name!r} {what}", param="model", code="model_not_supported")


def _raise_if_none_is_left(failures: Sequence[ModelError], *, num_models: int) -> None:
    if len(failures) == num_models == 1:
        raise failures[0]
    if failures and len(failures) == num_models:
        raise BrokenModel(failures[0].path, "no model can be served: " + "; ".join(map(str, failures)))
