"""GET /stats and /requests, DELETE /requests/{id}: counters, memory figures and recent requests."""

import asyncio
import time
from typing import Any

import falcon
import msgspec
from falcon.asgi import Request, Response
from msgspec import Struct

from mlxctl.engine import Stats
from mlxctl.errors import StoreError
from mlxctl.inference import InferenceService
from mlxctl.inference.models.manager import ModelStats
from mlxctl.inference.request_entry import RequestView
from mlxctl.policy import Caller
from mlxctl.server.metric_families import hit_ratio
from mlxctl.stores import ResponseStore

_COUNTERS = [field for field in msgspec.structs.fields(Stats) if field.name != "token"]


class StoredResponseStats(Struct):
    """Size of the response store."""

    num_responses: int
    num_bytes: int


ServerStats: type[Any] = msgspec.defstruct(
    "ServerStats",
    [
        *((field.name, field.type) for field in _COUNTERS),
        ("cache_usage_percent", float | None),
        ("cache_hit_percent", float | None),
        ("uptime_seconds", float),
        ("pool", ModelStats),
        ("responses", StoredResponseStats | None),
    ],
    namespace={
        "__doc__": (
            "The engine's counters since its start, what it holds now, the models in memory, and responses "
            "on disk."
        )
    },
    kw_only=True,
)
"""What the engine reports, without the token by which its answer is known, and what is known here of the
models.
"""


class RequestList(Struct):
    """Open requests, then ended ones, newest first: counts and times, no content."""

    requests: list[RequestView]


class CancelledRequest(Struct):
    """Answer to a cancelled request.

    Its id as given, and the numbers of its answers.
    """

    id: str
    cancelled: list[int]


class StatsResource:
    """GET /stats: counters of requests, tokens, memory, cache, models and stored responses."""

    def __init__(self, inference: InferenceService, responses: ResponseStore) -> None:
        self._inference = inference
        self._responses = responses
        self._started = time.monotonic()

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Query the engine. Raises EngineRecovering."""
        stats = await self._inference.engine_stats()
        counters = {field.name: getattr(stats, field.name) for field in _COUNTERS}
        pool, responses = self._inference.manager.stats(), await self._stored_responses()
        ratio = hit_ratio(stats)
        response.data = msgspec.json.encode(
            ServerStats(
                **counters,
                cache_usage_percent=_percent(stats.cache_bytes / stats.cache_max_bytes)
                if stats.cache_max_bytes
                else None,
                cache_hit_percent=_percent(ratio) if ratio is not None else None,
                uptime_seconds=round(time.monotonic() - self._started, 1),
                pool=pool,
                responses=responses,
            )
        )
        response.content_type = falcon.MEDIA_JSON

    on_head = on_get

    async def _stored_responses(self) -> StoredResponseStats | None:
        """Return None if the store cannot be read."""
        try:
            kept = await asyncio.to_thread(self._responses.facts)
        except StoreError:
            return None
        return StoredResponseStats(num_responses=kept.num_responses, num_bytes=kept.num_bytes)


def _percent(share: float) -> float:
    return round(100 * share, 1)


class RequestsResource:
    """GET /requests: open and recent requests."""

    def __init__(self, inference: InferenceService) -> None:
        self._inference = inference

    async def on_get(self, request: Request, response: Response) -> None:
        """Return the requests that the caller may see, open ones first."""
        caller = None if request.context.identity.sees_others else request.context.caller
        response.data = msgspec.json.encode(RequestList(requests=self._inference.requests(caller)))
        response.content_type = falcon.MEDIA_JSON

    on_head = on_get


class RequestResource:
    """DELETE /requests/{id}: cancels an open request."""

    def __init__(self, inference: InferenceService) -> None:
        self._inference = inference

    async def on_delete(self, request: Request, response: Response, request_id: str) -> None:
        """Cancel an open request of the caller.

        With the scope `requests:cancel`, of any caller. Raises UnknownResource, PermissionDenied.
        """
        identity: Caller = request.context.identity
        is_allowed = identity.sees_others and "requests:cancel" in identity.scopes
        caller = None if is_allowed else request.context.caller
        numbers = self._inference.cancel(request_id, caller=caller)
        response.data = msgspec.json.encode(CancelledRequest(id=request_id, cancelled=numbers))
        response.content_type = falcon.MEDIA_JSON
