"""Whether somebody is there (/livez), can answer (/readyz), and what is going on (/health)."""

from typing import Any

from falcon.asgi import Request, Response

from mlxctl import __version__
from mlxctl.errors import EngineRecovering, ShuttingDown
from mlxctl.inference import InferenceService
from mlxctl.server.open_requests import OpenRequests


class GreetingResource:
    """Says who is here; clients probe `/` and `/api/hello` before they ask anything."""

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Answer as soon as the server listens."""
        response.media = {"name": "mlxctl", "version": __version__}

    on_head = on_get


class ReadinessResource:
    """200 when a request would be taken, else 503 with Retry-After."""

    def __init__(self, inference: InferenceService) -> None:
        self._inference = inference

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Answer for load balancers."""
        status = self._inference.status
        if status == "draining":
            raise ShuttingDown("not ready: the server is shutting down")
        if status != "ready":
            raise EngineRecovering(f"not ready: the engine is {status}")
        response.media = {"status": status}

    on_head = on_get


class HealthResource:
    """Always 200 with the facts; a caller without the key that is asked for learns only status and version."""

    def __init__(self, inference: InferenceService, open_requests: OpenRequests) -> None:
        self._inference = inference
        self._open_requests = open_requests

    async def on_get(self, request: Request, response: Response) -> None:
        """Answer for people and monitors."""
        facts: dict[str, Any] = {"status": self._inference.status, "version": __version__}
        if request.context.caller is not None:
            facts |= {"model": self._model_name(), "engine": self._engine_facts(), "open_requests": self._open_requests.num_open}
        response.media = facts

    on_head = on_get

    def _model_name(self) -> str | None:
        return next((model.name for model in self._inference.served_models()), None)

    def _engine_facts(self) -> dict[str, Any] | None:
        engine = self._inference.engine
        if engine is None:
            return None
        return {"pid": engine.pid, "device": engine.device, "num_restarts": self._inference.num_engine_restarts}
