"""Brings a registered model into use and out of it: its weights in the engine, its adapter here.

Event-loop thread only.
"""

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from mlxctl.adapters.answer_reader import AdapterSupport, AnswerReader
from mlxctl.engine import EngineClient
from mlxctl.errors import BrokenModel, CapacityError, describe_bytes
from mlxctl.inference.models.eviction import MemoryBudget
from mlxctl.inference.models.registry import ModelRegistry
from mlxctl.inference.models.served_model import ModelToServe
from mlxctl.inference.preparation import PreparationPool
from mlxctl.ir import ModelSpec

# An unloaded model is expected to give back at least this share of its weights; less means that something
# still holds them.
_FREED_SHARE = 0.9
# Adapters that are kept without weights: a model that comes back need not read its tokenizer again, and still
# knows its replies.
_MAX_SPARES = 4

_log = logging.getLogger(__name__)


class ModelLoader:
    """The engine's weights and what reads and writes for them, always in step: a model is there when both
    are.
    """

    def __init__(
        self,
        engine: EngineClient,
        preparation: PreparationPool,
        registry: ModelRegistry,
        *,
        max_models: int | None,
    ) -> None:
        self._engine = engine
        self._preparation = preparation
        self._registry = registry
        self._max_models = max_models
        self._adapters: dict[str, AnswerReader] = {}
        self._at_start: str | None = None
        self._spares: dict[str, AnswerReader] = {}
        self._abilities: dict[str, AdapterSupport] = {}
        self._warned_unprobed: set[str] = set()
        self._warned_no_vision: dict[str, str] = {}

    async def start(self, model: ModelToServe | None) -> None:
        """Start the engine, with a model that it is to have whenever it starts.

        Raises the ModelError of that one, EngineDied.
        """
        self._at_start = model.name if model else None
        await self._engine.start([_spec(model)] if model else [])
        if model is not None:
            self._adapters[model.name] = await self._create_adapter(model)
        await self._engine.wait_ready()
        if model is not None:
            self._adapters[model.name].check_width(self._engine.loaded[model.name].vocabulary_size)
            self._adapters[model.name] = await self._as_loaded(model, self._adapters[model.name])
            self._say_if_never_probed(model)

    def adapter(self, name: str) -> AnswerReader | None:
        """Return the adapter of a model that is there."""
        return self._adapters.get(name)

    async def any_adapter(self, name: str) -> AnswerReader:
        """Return an adapter, also of a model whose weights are not there. Raises ModelError."""
        found = self._adapters.get(name) or self._spares.get(name)
        if found is None:
            found = await self._create_adapter(self._registry.model(name))
            await self._keep(name, found)
        return found

    def support(self, name: str) -> AdapterSupport | None:
        """Return what the model can do; None before it was looked at."""
        return self._abilities.get(name)

    def check_ready(self) -> None:
        """Raise the CapacityError that says why nothing can be loaded now."""
        self._engine.check_ready()

    def sizes(self) -> Mapping[str, int]:
        """Return the models that are there, with the bytes of their weights."""
        return {
            name: loaded.weights_bytes
            for name, loaded in self._engine.loaded.items()
            if name in self._adapters
        }

    def num_bytes(self, name: str) -> int:
        """Return the size of the model's files."""
        return self._registry.model(name).facts.weights_bytes

    def room(self) -> MemoryBudget:
        """Return what models may take in the engine that runs; several leave what the prefix cache may take."""
        hello = self._engine.hello
        assert hello is not None, "nothing is loaded before the engine is up"
        limit = hello.memory_limit_bytes
        return MemoryBudget(
            limit_bytes=limit,
            shared_bytes=max(0, limit - hello.prefix_cache_bytes),
            max_models=self._max_models,
        )

    async def load(self, name: str) -> None:
        """Bring the model in. Raises ModelError, EngineDied and CapacityError."""
        model = self._registry.model(name)
        adapter = await self.any_adapter(name)
        loaded = await self._engine.load(_spec(model))
        self._adapters[name] = adapter
        self._spares.pop(name, None)
        try:
            self._adapters[name].check_width(self._engine.loaded[name].vocabulary_size)
        except BrokenModel:
            await self.unload(name)
            raise
        self._adapters[name] = adapter = await self._as_loaded(model, adapter)
        _log.info(
            "model %r is loaded: %s in %.1f s",
            name,
            describe_bytes(loaded.weights_bytes),
            loaded.load_seconds,
        )
        if model.facts.purpose == "text":
            _log.info("model %r: %s", name, adapter.verdict.summary())
        self._say_if_never_probed(model)

    async def unload(self, name: str) -> None:
        """Let the model go. Raises ModelInUse, EngineDied and CapacityError."""
        unloaded = await self._engine.unload(name)
        # An engine that has to be started again comes back with the model of the start, which then needs its
        # adapter.
        if name in self._adapters and name != self._at_start:
            await self._keep(name, self._adapters.pop(name))
        if unloaded.freed_bytes < _FREED_SHARE * unloaded.weights_bytes:
            held, all_bytes = unloaded.weights_bytes - unloaded.freed_bytes, unloaded.weights_bytes
            _log.error(
                "unloading model %r gave back too little: %d of %d bytes are still held",
                name,
                held,
                all_bytes,
            )
        else:
            _log.info("model %r is unloaded: %s freed", name, describe_bytes(unloaded.freed_bytes))

    async def _keep(self, name: str, adapter: AnswerReader) -> None:
        self._spares[name] = adapter
        while len(self._spares) > _MAX_SPARES:
            gone = next(iter(self._spares))
            del self._spares[gone]
            if gone not in self._adapters:
                await self._preparation.forget(gone)

    async def _as_loaded(self, model: ModelToServe, adapter: AnswerReader) -> AnswerReader:
        """Return the adapter, or another where the engine could not load what the model sees with, or now
        could.
        """
        problem = self._engine.loaded[model.name].vision_problem
        facts = model.facts if problem is None else replace(model.facts, vision=None, vision_problem=problem)
        if (facts.vision, facts.vision_problem) != (adapter.facts.vision, adapter.facts.vision_problem):
            adapter = await self._create_adapter(replace(model, facts=facts))
        problem = adapter.verdict.vision_problem
        if problem is not None and self._warned_no_vision.get(model.name) != problem:
            self._warned_no_vision[model.name] = problem
            _log.warning("model %r reads text only: %s", model.name, problem)
        if model.facts.purpose == "text":
            # An engine that was lost meanwhile reads it with the first grammar.
            with suppress(CapacityError):
                self._engine.read_grammar_vocabulary(model.name, adapter.stop_token_ids)
        return adapter

    async def _create_adapter(self, model: ModelToServe) -> AnswerReader:
        adapter = await self._preparation.load(model.name, model.facts, model.capabilities)
        self._abilities[model.name] = adapter.support
        return adapter

    def _say_if_never_probed(self, model: ModelToServe) -> None:
        if model.name in self._warned_unprobed or model.verdicts or model.is_demo:
            return
        self._warned_unprobed.add(model.name)
        hint = "what it can do is told from its files; to find out: mlxctl probe"
        _log.info("model %r was never probed: %s %s", model.name, hint, model.facts.path)


def _spec(model: ModelToServe) -> ModelSpec:
    return model.facts.spec(model.name, trust_remote_code=model.trust_remote_code, kv_format=model.kv_format)
