"""State, memory and use of models for clients. Event-loop thread only."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from mlxctl.engine import EngineClient
from mlxctl.inference.models.eviction import ResidentModel
from mlxctl.inference.models.loader import ModelLoader
from mlxctl.inference.models.registry import ModelRegistry
from mlxctl.inference.models.residency import ModelResidency
from mlxctl.inference.models.served_model import ModelMemory, ServedModel
from mlxctl.inference.models.startup_probe import StartupProbe
from mlxctl.ir.allowed_models import AllowedModels
from mlxctl.ir.models import ModelState


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStats:
    """Models in memory, and counts since the start of the server.

    `num_waiting` counts requests that wait for a model; `num_swaps` counts loads for which others were
    evicted. `max_models` is None where only memory limits how many models are loaded.
    """

    num_waiting: int
    num_loads: int
    num_evictions: int
    num_swaps: int
    max_models: int | None
    models: tuple[ModelMemory, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgress:
    """Progress of loading a model.

    `num_bytes` of its weights are in memory, of `num_bytes_total` in its files. A model that waits for others
    to be evicted is `not_loaded`.
    """

    state: ModelState
    num_bytes: int
    num_bytes_total: int


class ModelStates:
    """Describes models as they are now."""

    def __init__(
        self,
        engine: EngineClient,
        registry: ModelRegistry,
        loader: ModelLoader,
        residency: ModelResidency,
        *,
        max_models: int | None,
        num_requests: Callable[[str], int],
        startup_probe: StartupProbe | None = None,
    ) -> None:
        """`num_requests` returns the requests of a model since the start."""
        self._startup_probe = startup_probe
        self._engine = engine
        self._registry = registry
        self._loader = loader
        self._residency = residency
        self._max_models = max_models
        self._num_requests = num_requests
        self._created = int(time.time())

    def describe(self, name: str, model: ServedModel) -> ServedModel:
        """Return the model as it is now, under one of its names."""
        return self.describe_all([(name, model)])[0]

    def describe_all(self, models: Iterable[tuple[str, ServedModel]]) -> tuple[ServedModel, ...]:
        """Return models as they are now, each under the given name."""
        memory = self._memory()
        return tuple(
            replace(
                model,
                name=name,
                created=self._created,
                state=self._state(model.name),
                problem=self._residency.problem(model.name),
                is_pinned=model.name in self._residency.pins,
                memory=memory.get(model.name),
            )
            for name, model in models
        )

    def load_progress(self, model: ServedModel) -> LoadProgress:
        """Return the progress of loading a model."""
        total, state = model.facts.weights_bytes, self._state(model.name)
        num_bytes = total if state == "loaded" else min(self._engine.num_bytes_read(model.name), total)
        return LoadProgress(state=state, num_bytes=num_bytes, num_bytes_total=total)

    def stats(self, allowed: AllowedModels) -> ModelStats:
        """Return the models in memory and the counts of loads and evictions."""
        return ModelStats(
            num_waiting=self._residency.num_waiting,
            num_loads=self._residency.num_loads,
            num_evictions=self._residency.num_evictions,
            num_swaps=self._residency.num_swaps,
            max_models=self._max_models,
            models=tuple(memory for name, memory in self._memory().items() if name in allowed),
        )

    def _state(self, name: str) -> ModelState:
        if self._startup_probe is not None and self._startup_probe.model_name == name:
            return "probing"
        return "loading" if self._loader.is_starting_with(name) else self._residency.state(name)

    def _memory(self) -> dict[str, ModelMemory]:
        now = time.monotonic()
        return {resident.name: self._describe(resident, now) for resident in self._residency.residents()}

    def _describe(self, resident: ResidentModel, now: float) -> ModelMemory:
        loaded = self._engine.loaded[resident.name]
        return ModelMemory(
            name=resident.name,
            weights_bytes=resident.num_bytes,
            kv_bytes_per_token=loaded.kv_bytes_per_token,
            kv_bits=loaded.kv_bits,
            num_requests=resident.num_leases,
            idle_seconds=0.0 if resident.num_leases else round(now - resident.used_at, 1),
            is_pinned=resident.is_pinned,
            loaded_at=round(self._loader.loaded_at(resident.name), 3),
            load_seconds=round(loaded.load_seconds, 3),
            num_requests_total=self._num_requests(resident.name),
            max_safe_context=self._max_safe_context(resident.name),
            cache_limits=loaded.cache_limits,
            seconds_to_expiry=self._residency.seconds_to_expiry(resident.name),
            ttl_seconds=resident.ttl_seconds,
        )

    def _max_safe_context(self, name: str) -> int | None:
        """Return the most tokens of one conversation.

        By memory and the model's context length.
        """
        hello, loaded = self._engine.hello, self._engine.loaded[name]
        if hello is None or not loaded.kv_bytes_per_token:
            return None
        room = max(0, hello.memory_limit_bytes - loaded.weights_bytes)
        return min(loaded.conversation.tokens_within(room), self._registry.model(name).context_length)
