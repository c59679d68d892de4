"""GET /stats and /requests, DELETE /requests/{id}: counters, memory figures and recent requests."""

import asyncio
import os
import time
from collections import Counter
from typing import Any, Literal

import msgspec
from falcon.asgi import Request, Response
from msgspec import Struct

from mlxctl import __version__
from mlxctl.engine import Stats
from mlxctl.inference import InferenceService
from mlxctl.inference.models.model_states import ModelStats
from mlxctl.inference.request_entry import RequestView
from mlxctl.ir import KVFormat
from mlxctl.ir.allowed_models import AllowedModels
from mlxctl.ir.errors import StoreError
from mlxctl.ir.kv_cache_size import KVFormats, layer_format
from mlxctl.library import ModelDescription
from mlxctl.library.catalog import Catalog
from mlxctl.library.layer_plan import Kept, plan_layers
from mlxctl.library.text_config import text_part
from mlxctl.server.http.answer import answer
from mlxctl.server.http.route import ServerOwner
from mlxctl.server.observe.engine_metrics import hit_ratio
from mlxctl.server.observe.metric_families import HttpRequestCounts
from mlxctl.server.policy.caller import allowed_models, call_of
from mlxctl.state.settings import ServerSettings
from mlxctl.state.stores import ResponseStore

_COUNTERS = [field for field in msgspec.structs.fields(Stats) if field.name != "token"]


class StoredResponseStats(Struct):
    """Size of the response store."""

    num_responses: int
    num_bytes: int


class ServerBlock(Struct):
    """The server: what started it, and when in unix seconds."""

    owner: ServerOwner
    model: str | None
    version: str
    started_at: float
    uptime_seconds: float


class AdmissionBlock(Struct):
    """Memory available to requests.

    `max_safe_context` is by model, in tokens. `memory_budget_bytes` is null without a limit in the settings.
    `machine_memory_bytes` is the memory of the server's machine.
    """

    admission: Literal["strict", "prompt"]
    max_safe_context: dict[str, int | None]
    memory_budget_bytes: int | None
    usable_bytes: int
    weights_bytes: int
    machine_memory_bytes: int


class BatchBlock(Struct):
    """Decoding: the maximum of rows in force, and the rows in use."""

    configured: int
    batched: bool
    active_rows: int


KVMode = Literal["full", "8", "4", "config"]


class KVQuantBlock(Struct):
    """Precision of the KV cache of each loaded model, by layers.

    `layers` counts by format, `attention` by kind; empty where the configuration does not tell.
    """

    mode: KVMode
    layers: dict[str, int]
    attention: dict[str, int]


class PromptCacheBlock(Struct):
    """The prefix cache in memory."""

    entries: int
    bytes: int
    max_bytes: int
    hits: int
    misses: int


class ResponseStoreBlock(Struct):
    """Number and size of the stored responses."""

    entries: int
    bytes: int
    max_bytes: int
    ttl_ms: int


ServerStats: type[Any] = msgspec.defstruct(
    "ServerStats",
    [
        *((field.name, field.type) for field in _COUNTERS),
        ("stats_age_seconds", float),
        ("cache_usage_percent", float | None),
        ("cache_hit_percent", float | None),
        ("uptime_seconds", float),
        ("num_disconnects", int),
        ("num_deadlines", int),
        ("vision_seconds", float),
        ("pool", ModelStats),
        ("responses", StoredResponseStats | None),
        ("server", ServerBlock),
        ("admission", AdmissionBlock),
        ("batch", BatchBlock),
        ("kv_quant", dict[str, KVQuantBlock]),
        ("prompt_cache", PromptCacheBlock),
        ("response_store", ResponseStoreBlock | None),
    ],
    namespace={
        "__doc__": (
            "The engine's counters since its start, what it holds now, the models in memory, and responses "
            "on disk. During a long computation the engine's figures are its last ones, and "
            "`stats_age_seconds` old. Requests that were stopped because their client left or at the time "
            "limit, and the time of the vision encoder, are counted since the start of the server."
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

    def __init__(
        self,
        inference: InferenceService,
        responses: ResponseStore,
        catalog: Catalog,
        settings: ServerSettings,
        http_requests: HttpRequestCounts,
        owner: ServerOwner,
    ) -> None:
        self._inference = inference
        self._owner = owner
        self._responses = responses
        self._http_requests = http_requests
        self._catalog = catalog
        self._settings = settings
        self._started, self._started_at = time.monotonic(), time.time()

    async def on_get(self, request: Request, response: Response) -> None:
        """Query the engine. Raises EngineRecovering."""
        stats = await self._inference.engine_stats()
        stats_age_seconds = round(self._inference.stats_age_seconds, 1)
        counters = {field.name: getattr(stats, field.name) for field in _COUNTERS}
        allowed, responses = allowed_models(request), await self._stored_responses()
        pool = self._inference.models.stats(allowed)
        ratio = hit_ratio(stats)
        answer(
            response,
            ServerStats(
                **counters,
                stats_age_seconds=stats_age_seconds,
                cache_usage_percent=_percent(stats.cache_bytes / stats.cache_max_bytes)
                if stats.cache_max_bytes
                else None,
                cache_hit_percent=_percent(ratio) if ratio is not None else None,
                uptime_seconds=round(time.monotonic() - self._started, 1),
                num_disconnects=self._http_requests.num_disconnects,
                num_deadlines=self._http_requests.num_deadlines,
                vision_seconds=round(self._inference.vision_seconds, 3),
                pool=pool,
                responses=responses,
                server=ServerBlock(
                    owner=self._owner,
                    model=next((model.name for model in self._inference.models.served(allowed)), None),
                    version=__version__,
                    started_at=round(self._started_at, 3),
                    uptime_seconds=round(time.monotonic() - self._started, 1),
                ),
                admission=self._admission(pool),
                batch=BatchBlock(
                    configured=self._inference.scheduler_policy.max_rows,
                    batched=self._inference.scheduler_policy.max_rows > 1,
                    active_rows=stats.num_decoding,
                ),
                kv_quant=await asyncio.to_thread(self._kv_quant, pool, allowed),
                prompt_cache=PromptCacheBlock(
                    entries=stats.cache_chunks,
                    bytes=stats.cache_bytes,
                    max_bytes=stats.cache_max_bytes,
                    hits=sum(num for hit, num in stats.cache_hits.items() if hit != "miss"),
                    misses=stats.cache_hits.get("miss", 0),
                ),
                response_store=responses
                and ResponseStoreBlock(
                    entries=responses.num_responses,
                    bytes=responses.num_bytes,
                    max_bytes=self._settings.response_store_bytes,
                    ttl_ms=round(1000 * self._settings.response_ttl_seconds),
                ),
            ),
        )

    def _admission(self, pool: ModelStats) -> AdmissionBlock:
        engine, settings = self._inference.engine, self._catalog.engine_settings
        return AdmissionBlock(
            admission=settings.admission,
            max_safe_context={model.name: model.max_safe_context for model in pool.models},
            memory_budget_bytes=settings.memory_limit_bytes,
            usable_bytes=engine.memory_limit_bytes if engine else 0,
            weights_bytes=sum(model.weights_bytes for model in pool.models),
            machine_memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        )

    def _kv_quant(self, pool: ModelStats, allowed: AllowedModels) -> dict[str, KVQuantBlock]:
        served = {model.name: model for model in self._inference.models.served(allowed)}
        return {
            model.name: _describe_kv(
                None if model.kv_bits is None else served[model.name].options.kv_format,
                self._catalog.described(model.name, served[model.name].facts.path),
            )
            for model in pool.models
            if model.name in served
        }

    async def _stored_responses(self) -> StoredResponseStats | None:
        """Return None if the store cannot be read."""
        try:
            kept = await asyncio.to_thread(self._responses.facts)
        except StoreError:
            return None
        return StoredResponseStats(num_responses=kept.num_responses, num_bytes=kept.num_bytes)


def _describe_kv(formats: KVFormats | None, model: ModelDescription) -> KVQuantBlock:
    plan = plan_layers(model.model_type or "", text_part(model.config)) or ()
    attention = {name: plan.count(kept) for name, kept in _ATTENTION.items() if plan.count(kept)}
    found = [
        layer_format(formats, index) if kept == "all" and formats is not None else None
        for index, kept in enumerate(plan)
        if kept != "nothing"
    ]
    layers = Counter("full" if form is None else f"kv{form.bits}" for form in found)
    mode: KVMode = "full" if formats is None else "config"
    if isinstance(formats, KVFormat):
        mode = "8" if formats.bits == 8 else "4"
    return KVQuantBlock(mode=mode, layers=dict(layers), attention=attention)


_ATTENTION: dict[str, Kept] = {"global": "all", "sliding_window": "window", "linear": "state"}


def _percent(share: float) -> float:
    return round(100 * share, 1)


class RequestsResource:
    """GET /requests: open and recent requests."""

    def __init__(self, inference: InferenceService) -> None:
        self._inference = inference

    async def on_get(self, request: Request, response: Response) -> None:
        """Return the requests that the caller may see, open ones first."""
        call = call_of(request)
        caller = None if call.caller.sees_others else call.owner
        requests = self._inference.requests(call.models, caller)
        answer(response, RequestList(requests=requests))


class RequestResource:
    """DELETE /requests/{id}: cancels an open request."""

    def __init__(self, inference: InferenceService) -> None:
        self._inference = inference

    async def on_delete(self, request: Request, response: Response, request_id: str) -> None:
        """Cancel an open request of the caller.

        With the scope `requests:cancel`, of any caller. Raises UnknownResource, PermissionDenied.
        """
        call = call_of(request)
        is_allowed = call.caller.sees_others and "requests:cancel" in call.caller.scopes
        caller = None if is_allowed else call.owner
        numbers = self._inference.cancel(request_id, call.models, caller=caller)
        answer(response, CancelledRequest(id=request_id, cancelled=numbers))
