"""Loads registered models: weights in the engine, answer readers in the front.

Event-loop thread only.
"""

import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from mlxctl.engine import EngineClient
from mlxctl.formats.adapters.answer_reader import AnswerReader
from mlxctl.inference.models.eviction import ModelMemoryBudget
from mlxctl.inference.models.registry import ModelRegistry
from mlxctl.inference.models.served_model import ServedModel
from mlxctl.inference.preparation import PreparationPool
from mlxctl.ir.errors import BrokenModel, CapacityError, describe_bytes

# An unloaded model is expected to free at least this share of its weights; less means a leak.
_FREED_SHARE = 0.9
# Readers kept for unloaded models: reloading one skips its tokenizer, and its answers' token ids stay known.
_MAX_UNLOADED_READERS = 4

_log = logging.getLogger(__name__)


class ModelLoader:
    """Keeps the engine's weights and the front's readers in step.

    A model is loaded when both have it.
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
        self._readers: dict[str, AnswerReader] = {}
        self._loaded_at: dict[str, float] = {}
        self._at_start: str | None = None
        self._unloaded_readers: dict[str, AnswerReader] = {}
        self._warned_unprobed: set[str] = set()
        self._warned_media: dict[tuple[str, str], str] = {}

    async def start(self, model: ServedModel | None) -> None:
        """Start the engine, with a model that each restart loads again.

        Raises the model's ModelError, EngineDied.
        """
        self._at_start = model.name if model else None
        await self._engine.start([model.spec] if model else [])
        if model is not None:
            self._readers[model.name] = await self._create_reader(model)
        await self._engine.wait_ready()
        if model is not None:
            self._loaded_at[model.name] = time.time()
            reader = self._readers[model.name]
            reader.check_width(self._engine.loaded[model.name].vocabulary_size)
            self._readers[model.name] = await self._match_engine(model, reader)
            self._log_if_unprobed(model)

    def is_starting_with(self, name: str) -> bool:
        """Whether the engine loads the model at its first start."""
        return name == self._at_start and name not in self._loaded_at

    def loaded_at(self, name: str) -> float:
        """Return when the model was loaded first or again, in unix seconds."""
        return self._loaded_at.get(name, 0.0)

    def reader(self, name: str) -> AnswerReader | None:
        """Return the answer reader of a loaded model."""
        return self._readers.get(name)

    async def any_reader(self, name: str) -> AnswerReader:
        """Return the answer reader of a model, loaded or not. Raises ModelError."""
        reader = self._readers.get(name) or self._unloaded_readers.get(name)
        if reader is None:
            reader = await self._create_reader(self._registry.model(name))
            await self._keep_unloaded(name, reader)
        return reader

    async def renew_reader(self, name: str) -> None:
        """Read tokenizer and template again, since probing found other capabilities.

        Answers that are being generated keep the former reader. Raises ModelError.
        """
        self._unloaded_readers.pop(name, None)
        if name not in self._readers:
            return
        model = self._registry.model(name)
        reader = await self._create_reader(model)
        # It may have been unloaded meanwhile, and a restarting engine has no model.
        if name in self._readers and name in self._engine.loaded:
            self._readers[name] = await self._match_engine(model, reader)

    def check_ready(self) -> None:
        """Raise the CapacityError that explains why nothing can be loaded now."""
        self._engine.check_ready()

    def sizes(self) -> Mapping[str, int]:
        """Return the bytes of the weights of each loaded model."""
        return {
            name: loaded.weights_bytes
            for name, loaded in self._engine.loaded.items()
            if name in self._readers
        }

    def num_bytes(self, name: str) -> int:
        """Return the size of the model's files."""
        return self._registry.model(name).facts.weights_bytes

    def budget(self) -> ModelMemoryBudget:
        """Return the memory that models may take in the running engine."""
        hello = self._engine.hello
        assert hello is not None, "models are loaded after the engine has started"
        limit = hello.memory_limit_bytes
        return ModelMemoryBudget(
            limit_bytes=limit,
            shared_bytes=max(0, limit - (self._engine.prefix_cache_bytes or 0)),
            max_models=self._max_models,
        )

    async def load(self, name: str) -> None:
        """Load the model. Raises ModelError, EngineDied and CapacityError."""
        model = self._registry.model(name)
        reader = await self.any_reader(name)
        loaded = await self._engine.load(model.spec)
        self._loaded_at[name] = time.time()
        self._readers[name] = reader
        self._unloaded_readers.pop(name, None)
        try:
            reader.check_width(self._engine.loaded[name].vocabulary_size)
        except BrokenModel:
            await self.unload(name)
            raise
        self._readers[name] = reader = await self._match_engine(model, reader)
        _log.info(
            "model %r is loaded: %s in %.1f s",
            name,
            describe_bytes(loaded.weights_bytes),
            loaded.load_seconds,
        )
        if model.facts.purpose == "text":
            _log.info("model %r: %s", name, reader.verdict.summary())
        self._log_if_unprobed(model)

    async def unload(self, name: str) -> None:
        """Unload the model. Raises ModelInUse, EngineDied and CapacityError."""
        unloaded = await self._engine.unload(name)
        # A restarted engine loads the model of the start again, which then needs its reader.
        if name in self._readers and name != self._at_start:
            await self._keep_unloaded(name, self._readers.pop(name))
        if unloaded.freed_bytes < _FREED_SHARE * unloaded.weights_bytes:
            held, all_bytes = unloaded.weights_bytes - unloaded.freed_bytes, unloaded.weights_bytes
            _log.error(
                "unloading model %r freed too little memory: %d of %d bytes are still allocated",
                name,
                held,
                all_bytes,
            )
        else:
            _log.info("model %r is unloaded: %s freed", name, describe_bytes(unloaded.freed_bytes))

    async def _keep_unloaded(self, name: str, reader: AnswerReader) -> None:
        self._unloaded_readers[name] = reader
        while len(self._unloaded_readers) > _MAX_UNLOADED_READERS:
            oldest = next(iter(self._unloaded_readers))
            del self._unloaded_readers[oldest]
            if oldest not in self._readers:
                await self._preparation.unload(oldest)

    async def _match_engine(self, model: ServedModel, reader: AnswerReader) -> AnswerReader:
        """Return a reader that accepts media only if the engine does."""
        facts = model.facts.without_encoders(self._engine.loaded[model.name].encoder_problem)
        if facts.media != reader.facts.media:
            reader = await self._create_reader(replace(model, facts=facts))
        for what, problem in (
            ("images", reader.verdict.vision_problem),
            ("audio", reader.verdict.audio_problem),
        ):
            if problem is not None and self._warned_media.get((model.name, what)) != problem:
                self._warned_media[model.name, what] = problem
                _log.warning("model %r takes no %s: %s", model.name, what, problem)
        if model.facts.purpose == "text":
            # If the engine died meanwhile, the next one reads the vocabulary with the first grammar.
            with suppress(CapacityError):
                self._engine.read_grammar_vocabulary(model.name, reader.stop_token_ids)
        return reader

    async def _create_reader(self, model: ServedModel) -> AnswerReader:
        reader = await self._preparation.load(model.name, model.facts, model.probed_capabilities)
        self._registry.set_capabilities(model.name, reader)
        return reader

    def _log_if_unprobed(self, model: ServedModel) -> None:
        if model.name in self._warned_unprobed or model.verdicts or model.is_demo:
            return
        self._warned_unprobed.add(model.name)
        hint = "its capabilities are detected from its files; to test them: mlxctl probe"
        _log.info("model %r was never probed: %s %s", model.name, hint, model.facts.path)
