"""Liveness (/livez), readiness (/readyz) and health (/health)."""

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import Literal

from falcon.asgi import Request, Response
from msgspec import UNSET, Struct, UnsetType

from mlxctl import __version__
from mlxctl.engine import EngineStatus
from mlxctl.inference import InferenceService
from mlxctl.ir.allowed_models import EVERY_MODEL, AllowedModels
from mlxctl.ir.errors import CapacityError, EngineError, StoreError
from mlxctl.server.http.answer import answer
from mlxctl.server.http.open_requests import OpenHttpRequests
from mlxctl.server.policy.caller import allowed_models, call_of
from mlxctl.server.resources.agents.agent_queue import AgentQueue
from mlxctl.server.resources.agents.agents import count_active_agents
from mlxctl.state.stores import AgentStores

_REASONS = {"starting": "model_loading", "recovering": "engine_recovering", "draining": "shutting_down"}
_STATS_SECONDS = 1.0


class Greeting(Struct):
    """Name and version of the server."""

    name: str
    version: str


class Liveness(Struct):
    """The server listens."""

    name: str
    version: str
    status: Literal["alive"] = "alive"


class Readiness(Struct):
    """The server accepts requests."""

    status: Literal["ready"]


class Unreadiness(Struct):
    """The server accepts no requests; `reason` is a word, `detail` a sentence."""

    reason: str
    detail: str
    status: Literal["not_ready"] = "not_ready"


class Healthz(Struct, omit_defaults=True):
    """Status in one word; `reason` is set when degraded."""

    status: Literal["ok", "degraded"]
    reason: str | None = None


class EngineFacts(Struct):
    """The running engine process, and what MLX computes with.

    `backend` is cpu, metal or cuda; `blas` is openblas, bundled or native.
    """

    pid: int
    device: str
    backend: str
    blas: str
    mlx_version: str
    mlx_lm_version: str
    num_restarts: int


class AgentCounts(Struct):
    """Agents of all callers, and open turns of the stored ones.

    A turn waits for the previous turn of its agent. Of the agents that sent requests in the last hour, stored
    ones or not, `hot` have at least half of their last prompt in memory, `warm` on disk; null is unknown.
    """

    on_disk: int
    in_memory: int
    running: int
    waiting: int
    hot: int | None = None
    warm: int | None = None
    cold: int | None = None


class Health(Struct):
    """Status and figures of the server.

    Callers without a required key get status and version only. Unknown values are null.
    """

    status: Literal["ok"] | EngineStatus
    version: str
    problem: str | UnsetType | None = UNSET
    model: str | UnsetType | None = UNSET
    engine: EngineFacts | UnsetType | None = UNSET
    open_requests: int | UnsetType = UNSET
    loaded_models: list[str] | UnsetType = UNSET
    memory_bytes: int | UnsetType | None = UNSET
    memory_limit_bytes: int | UnsetType | None = UNSET
    cache_bytes: int | UnsetType | None = UNSET
    cache_max_bytes: int | UnsetType | None = UNSET
    agents: AgentCounts | UnsetType | None = UNSET


class GreetingResource:
    """Name and version; clients probe `/` and `/api/hello` first."""

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Answer as soon as the server listens."""
        answer(response, Greeting(name="mlxctl", version=__version__))


class LivenessResource:
    """GET /livez."""

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Answer as soon as the server listens."""
        answer(response, Liveness(name="mlxctl", version=__version__))


class ServerLoad(Struct):
    """Number of open requests, waiting ones included."""

    server_load: int


class ServerLoadResource:
    """GET /load, as in vLLM."""

    def __init__(self, open_requests: OpenHttpRequests) -> None:
        self._open_requests = open_requests

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Count the open requests."""
        answer(response, ServerLoad(self._open_requests.num_open))


class HealthzResource:
    """Always 200: ok, or degraded with the reason as a word."""

    def __init__(self, inference: InferenceService) -> None:
        self._inference = inference

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        status = self._inference.status
        reason = None if status == "ready" else _REASONS.get(status, status)
        if status == "recovering" and self._inference.is_serving:
            reason = "model_not_loaded"
        answer(response, Healthz(status="degraded" if reason else "ok", reason=reason))


class ReadinessResource:
    """200 when requests are accepted, else 503 with Retry-After.

    `ready_when` says which models are needed for it.
    """

    def __init__(self, inference: InferenceService, *, ready_when: Literal["any", "first", "all"]) -> None:
        self._inference = inference
        self._ready_when = ready_when

    async def on_get(self, request: Request, response: Response) -> None:
        """Answer load balancers; without a required key the answer names no model."""
        status = self._inference.status
        if status == "ready" or (status in ("recovering", "failed") and self._has_enough_models()):
            answer(response, Readiness(status="ready"))
            return
        details = {"draining": "the server is shutting down", "starting": "the first model is being loaded"}
        detail = details.get(status) or self._inference.models.problem(allowed_models(request))
        answer(response, Unreadiness(_REASONS.get(status, status), detail or f"the engine is {status}"))
        response.status = HTTPStatus.SERVICE_UNAVAILABLE
        response.set_header("Retry-After", "1")

    def _has_enough_models(self) -> bool:
        """Whether the models that `ready_when` requires are loaded.

        Others may be missing.
        """
        if self._ready_when == "all" or not self._inference.is_serving:
            return False
        models = self._inference.models.served(EVERY_MODEL)
        return any(
            model.memory is not None for model in (models if self._ready_when == "any" else models[:1])
        )


class HealthResource:
    """Always 200; without a required key, status and version only."""

    def __init__(
        self,
        inference: InferenceService,
        agents: AgentStores,
        agent_queue: AgentQueue,
        open_requests: OpenHttpRequests,
    ) -> None:
        self._inference = inference
        self._agents = agents
        self._agent_queue = agent_queue
        self._open_requests = open_requests

    async def on_get(self, request: Request, response: Response) -> None:
        status = self._inference.status
        health = Health(status="ok" if status == "ready" else status, version=__version__)
        if call_of(request).owner:
            allowed = allowed_models(request)
            health.problem = self._inference.models.problem(allowed)
            health.model = self._model_name(allowed)
            health.engine = self._engine_facts()
            health.open_requests = self._open_requests.num_open
            health.loaded_models = [
                model.name for model in self._inference.models.served(allowed) if model.memory
            ]
            health.agents = await self._agent_counts()
            await self._add_memory(health)
        answer(response, health)

    async def _add_memory(self, health: Health) -> None:
        """Add the engine's memory figures, null where it does not answer soon."""
        health.memory_bytes = health.memory_limit_bytes = health.cache_bytes = health.cache_max_bytes = None
        engine = self._inference.engine
        if engine is None:
            return
        health.memory_limit_bytes = engine.memory_limit_bytes
        with suppress(TimeoutError, CapacityError, EngineError):
            async with asyncio.timeout(_STATS_SECONDS):
                stats = await self._inference.engine_stats()
            health.memory_bytes = stats.active_memory_bytes
            health.cache_bytes, health.cache_max_bytes = stats.cache_bytes, stats.cache_max_bytes

    async def _agent_counts(self) -> AgentCounts | None:
        """Return the counts of agents.

        None where the store does not answer soon.
        """
        try:
            async with asyncio.timeout(_STATS_SECONDS):
                on_disk, in_memory = await asyncio.to_thread(self._agents.counts)
        except (TimeoutError, StoreError):
            return None
        queue = self._agent_queue
        agents = AgentCounts(on_disk, in_memory, running=queue.num_running, waiting=queue.num_waiting)
        if (active := await count_active_agents(self._inference)) is not None:
            agents.hot, agents.warm, agents.cold = active["hot"], active["warm"], active["cold"]
        return agents

    def _model_name(self, allowed: AllowedModels) -> str | None:
        return next((model.name for model in self._inference.models.served(allowed)), None)

    def _engine_facts(self) -> EngineFacts | None:
        engine = self._inference.engine
        if engine is None:
            return None
        return EngineFacts(
            pid=engine.pid,
            device=engine.device,
            backend=engine.backend,
            blas=engine.blas,
            mlx_version=engine.mlx_version,
            mlx_lm_version=engine.mlx_lm_version,
            num_restarts=self._inference.num_engine_restarts,
        )
