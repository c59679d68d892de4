"""Liveness (/livez), readiness (/readyz) and health (/health)."""

from typing import Literal

import falcon
import msgspec
from falcon.asgi import Request, Response
from msgspec import UNSET, Struct, UnsetType

from mlxctl import __version__
from mlxctl.engine import EngineStatus
from mlxctl.errors import EngineRecovering, ModelLoading, ShuttingDown
from mlxctl.inference import InferenceService
from mlxctl.server.open_requests import OpenHttpRequests


class Greeting(Struct):
    """Name and version of the server."""

    name: str
    version: str


class Readiness(Struct):
    """The server accepts requests."""

    status: Literal["ready"]


class EngineFacts(Struct):
    """The running engine process."""

    pid: int
    device: str
    num_restarts: int


class Health(Struct):
    """Status and figures of the server.

    Callers without a required key get status and version only. Unknown values are null.
    """

    status: EngineStatus
    version: str
    problem: str | UnsetType | None = UNSET
    model: str | UnsetType | None = UNSET
    engine: EngineFacts | UnsetType | None = UNSET
    open_requests: int | UnsetType = UNSET


class GreetingResource:
    """Name and version; clients probe `/` and `/api/hello` first."""

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Answer as soon as the server listens."""
        response.data = msgspec.json.encode(Greeting(name="mlxctl", version=__version__))
        response.content_type = falcon.MEDIA_JSON

    on_head = on_get


class ReadinessResource:
    """200 when requests are accepted, else 503 with Retry-After."""

    def __init__(self, inference: InferenceService) -> None:
        self._inference = inference

    async def on_get(self, request: Request, response: Response) -> None:
        """Answer load balancers; without a required key the answer names no model."""
        status = self._inference.status
        if status == "draining":
            raise ShuttingDown("not ready: the server is shutting down")
        if status == "starting":
            raise ModelLoading("not ready: the engine or the first model is still being loaded")
        if status != "ready":
            problem = self._inference.problem if request.context.caller is not None else None
            raise EngineRecovering(f"not ready: {problem or f'the engine is {status}'}")
        response.data = msgspec.json.encode(Readiness(status=status))
        response.content_type = falcon.MEDIA_JSON

    on_head = on_get


class HealthResource:
    """Always 200; without a required key, status and version only."""

    def __init__(self, inference: InferenceService, open_requests: OpenHttpRequests) -> None:
        self._inference = inference
        self._open_requests = open_requests

    async def on_get(self, request: Request, response: Response) -> None:
        health = Health(status=self._inference.status, version=__version__)
        if request.context.caller is not None:
            health.problem = self._inference.problem
            health.model = self._model_name()
            health.engine = self._engine_facts()
            health.open_requests = self._open_requests.num_open
        response.data = msgspec.json.encode(health)
        response.content_type = falcon.MEDIA_JSON

    on_head = on_get

    def _model_name(self) -> str | None:
        return next((model.name for model in self._inference.models()), None)

    def _engine_facts(self) -> EngineFacts | None:
        engine = self._inference.engine
        if engine is None:
            return None
        return EngineFacts(
            pid=engine.pid, device=engine.device, num_restarts=self._inference.num_engine_restarts
        )
