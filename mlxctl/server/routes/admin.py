"""Routes for operators: counters, requests and metrics."""

from collections.abc import Callable

from msgspec import Struct

from mlxctl.inference import InferenceService
from mlxctl.server.http.route import Operation, Query, Route
from mlxctl.server.observe.audit import AuditPage, AuditResource
from mlxctl.server.observe.metrics import MetricsResource
from mlxctl.server.observe.stats import (
    CancelledRequest,
    RequestList,
    RequestResource,
    RequestsResource,
    ServerStats,
    StatsResource,
)
from mlxctl.server.resources.cache.cache_settings import (
    CacheSettingsChange,
    CacheSettingsResource,
    CacheSettingsState,
)
from mlxctl.server.resources.operation.live_settings import LiveSettingsResource
from mlxctl.server.resources.operation.scheduler import SchedulerChange, SchedulerResource, SchedulerState
from mlxctl.state.stores.audit_files import MAX_RESULTS


def _live_settings(
    path: str,
    what: str,
    create: Callable[[InferenceService], LiveSettingsResource],
    change: type[Struct],
    state: type[Struct],
) -> Route:
    return Route(
        path=path,
        resource=lambda context: create(context.services.inference),
        access="admin",
        operations=(
            Operation(method="get", summary=f"Get {what}", answer=state),
            Operation(
                method="patch",
                summary=f"Change {what} while the server runs",
                body=change,
                answer=state,
            ),
        ),
    )


ROUTES = (
    Route(
        path="/stats",
        resource=lambda context: StatsResource(
            context.services.inference,
            context.services.responses,
            context.services.catalog,
            context.settings,
            context.http_requests,
            context.owner,
        ),
        access="metrics:read",
        operations=(
            Operation(
                method="get",
                summary="Get the engine's counters and memory figures",
                answer=ServerStats,
                errors=(500, 503),
            ),
        ),
    ),
    Route(
        path="/requests",
        resource=lambda context: RequestsResource(context.services.inference),
        access="requests:read",
        operations=(Operation(method="get", summary="List open and recent requests", answer=RequestList),),
    ),
    Route(
        path="/requests/{request_id}",
        resource=lambda context: RequestResource(context.services.inference),
        access="caller",
        operations=(
            Operation(
                method="delete",
                summary="Cancel an open request by its number or x-request-id",
                answer=CancelledRequest,
                errors=(403, 404),
            ),
        ),
    ),
    Route(
        path="/metrics",
        resource=lambda context: MetricsResource(
            context.services.inference,
            context.agent_queue,
            context.http_requests,
            context.services.policy.limiter,
            context.services.audit,
            context.services.router,
        ),
        access="metrics:read",
        operations=(
            Operation(method="get", summary="Get metrics in the Prometheus text format", answer=str),
        ),
    ),
    _live_settings(
        "/admin/scheduler", "the scheduler's settings", SchedulerResource, SchedulerChange, SchedulerState
    ),
    _live_settings(
        "/admin/cache",
        "the prefix cache's settings",
        CacheSettingsResource,
        CacheSettingsChange,
        CacheSettingsState,
    ),
    Route(
        path="/admin/audit",
        resource=lambda context: AuditResource(context.services.audit, context.services.inference.models),
        access="audit:read",
        covers_all_callers=True,
        operations=(
            Operation(
                method="get",
                summary="Search the audit log, the newest records first",
                answer=AuditPage,
                query=(
                    Query(name="since", schema={"type": "number"}),
                    Query(name="until", schema={"type": "number"}),
                    Query(name="key", schema={"type": "string"}),
                    Query(name="model", schema={"type": "string"}),
                    Query(name="status", schema={"type": "integer"}),
                    Query(name="limit", schema={"type": "integer", "minimum": 1, "maximum": MAX_RESULTS}),
                    Query(name="after", schema={"type": "integer"}),
                ),
                errors=(400, 503),
            ),
        ),
    ),
)
