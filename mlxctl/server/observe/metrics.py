"""GET /metrics, in the Prometheus text format."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from falcon.asgi import Request, Response

from mlxctl.inference import InferenceService
from mlxctl.inference.routing import Router
from mlxctl.ir.allowed_models import AllowedModels
from mlxctl.ir.errors import MlxctlError
from mlxctl.server.http.answer import answer
from mlxctl.server.observe.metric_families import HttpRequestCounts, MetricsSnapshot, metric_families
from mlxctl.server.policy import RateLimiter
from mlxctl.server.policy.caller import allowed_models
from mlxctl.server.resources.agents.agent_queue import AgentQueue
from mlxctl.server.resources.agents.agents import count_active_agents
from mlxctl.state.stores.audit import AuditStore

if TYPE_CHECKING:
    from prometheus_client import Metric


class MetricsResource:
    """All metrics; without an engine, those of the engine are missing."""

    def __init__(
        self,
        inference: InferenceService,
        agent_queue: AgentQueue,
        http_requests: HttpRequestCounts,
        limiter: RateLimiter,
        audit: AuditStore | None,
        router: Router,
    ) -> None:
        self._inference = inference
        self._agent_queue = agent_queue
        self._http_requests = http_requests
        self._limiter = limiter
        self._audit = audit
        self._router = router

    async def on_get(self, request: Request, response: Response) -> None:
        """Query the engine and render all metrics."""
        # PERF: imported at the first scrape, not at the start of the server.
        from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
        from prometheus_client.registry import CollectorRegistry

        registry = CollectorRegistry()
        registry.register(_Collector(await self._snapshot(allowed_models(request))))
        answer(response, generate_latest(registry), CONTENT_TYPE_LATEST)

    async def _snapshot(self, allowed: AllowedModels) -> MetricsSnapshot:
        inference = self._inference
        try:
            stats = await inference.engine_stats()
        except MlxctlError:
            stats = None
        return MetricsSnapshot(
            totals=inference.totals(allowed),
            status=inference.status,
            num_restarts=inference.num_engine_restarts,
            http=self._http_requests,
            speech={
                name: totals
                for name, totals in self._http_requests.speech.items()
                if inference.models.is_allowed(name, allowed)
            },
            rate_limited=self._limiter.num_refused,
            num_audit_dropped=self._audit.num_dropped if self._audit is not None else 0,
            pool=inference.models.stats(allowed),
            agents=await count_active_agents(inference),
            agent_turns={
                "running": self._agent_queue.num_running,
                "waiting": self._agent_queue.num_waiting,
            },
            routes=inference.models.num_routes(allowed),
            models=inference.models.served(allowed),
            fetched_images=inference.images.totals,
            remotes=self._router.servers,
            engine=stats,
        )


class _Collector:
    """Collector for one scrape."""

    def __init__(self, snapshot: MetricsSnapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> "Iterator[Metric]":
        return metric_families(self._snapshot)

    def describe(self) -> "Iterator[Metric]":
        """Return nothing: the metrics are known only at collection."""
        return iter(())
