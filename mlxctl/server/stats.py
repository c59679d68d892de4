"""What the engine has done since its start, what it holds now, and what the requests are doing, for people and monitors."""

from typing import Any

import falcon
import msgspec
from falcon.asgi import Request, Response
from msgspec import Struct

from mlxctl.engine import Stats
from mlxctl.inference import InferenceService
from mlxctl.inference.pool_facts import PoolFacts
from mlxctl.inference.request_log import RequestView

_COUNTERS = [field for field in msgspec.structs.fields(Stats) if field.name != "token"]

ServerStats: type[Any] = msgspec.defstruct(
    "ServerStats",
    [*((field.name, field.type) for field in _COUNTERS), ("pool", PoolFacts)],
    namespace={"__doc__": "The engine's counters since its start, what it holds now, and the models in memory."},
    kw_only=True,
)
"""What the engine reports, without the token by which its answer is known, and what is known here of the models."""


class RequestList(Struct):
    """The open requests, then the last ones, each the last first: counts and times, never what was said."""

    requests: list[RequestView]


class StatsResource:
    """GET /stats: counters of requests, tokens, memory and the prefix cache, and which models are in memory."""

    def __init__(self, inference: InferenceService) -> None:
        self._inference = inference

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Ask the engine. Raises EngineRecovering while there is none."""
        stats = await self._inference.stats()
        counters = {field.name: getattr(stats, field.name) for field in _COUNTERS}
        response.data = msgspec.json.encode(ServerStats(**counters, pool=self._inference.pool.facts()))
        response.content_type = falcon.MEDIA_JSON

    on_head = on_get


class RequestsResource:
    """GET /requests: the open requests and the last ones."""

    def __init__(self, inference: InferenceService) -> None:
        self._inference = inference

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Return them, the open ones first."""
        response.data = msgspec.json.encode(RequestList(requests=self._inference.requests()))
        response.content_type = falcon.MEDIA_JSON

    on_head = on_get
