"""Whether somebody is there (/livez), can answer (/readyz), and what is going on (/health)."""

import asyncio
from typing import Any

from falcon.asgi import Request, Response

from mlxctl import __version__
from mlxctl.errors import EngineRecovering, ShuttingDown, StoreError
from mlxctl.inference import InferenceService
from mlxctl.server.open_requests import OpenRequests
from mlxctl.stores import ResponseStore


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

    def __init__(self, inference: InferenceService, open_requests: OpenRequests, responses: ResponseStore) -> None:
        self._inference = inference
        self._open_requests = open_requests
        self._responses = responses

    async def on_get(self, request: Request, response: Response) -> None:
        """Answer for people and monitors."""
        facts: dict[str, Any] = {"status": self._inference.status, "version": __version__}
        if request.context.caller is not None:
            facts["responses"] = await self._response_facts()
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

    async def _response_facts(self) -> dict[str, Any] | None:
        """Return how much is kept for the Responses API; None when its file cannot be used."""
        try:
            kept = await asyncio.to_thread(self._responses.facts)
        except StoreError:
            return None
        return {"num_responses": kept.num_responses, "num_bytes": kept.num_bytes}
