"""What the engine has done since its start, what it holds now, and what the requests are doing, for people and monitors."""

import msgspec
from falcon.asgi import Request, Response

from mlxctl.inference import InferenceService


class StatsResource:
    """GET /stats: counters of requests, tokens, memory and the prefix cache, and which models are in memory."""

    def __init__(self, inference: InferenceService) -> None:
        self._inference = inference

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Ask the engine. Raises EngineRecovering while there is none."""
        counters = msgspec.to_builtins(await self._inference.stats())
        told = {name: value for name, value in counters.items() if name not in ("type", "token")}
        response.media = told | {"pool": self._inference.pool.facts()}

    on_head = on_get


class RequestsResource:
    """GET /requests: the open requests and the last ones, in counts and times; never what was said."""

    def __init__(self, inference: InferenceService) -> None:
        self._inference = inference

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Return them, the open ones first."""
        response.media = {"requests": msgspec.to_builtins(self._inference.requests())}

    on_head = on_get
