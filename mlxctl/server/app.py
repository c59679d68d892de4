"""The ASGI application: the table of routes, and the middleware before it."""

from collections.abc import Sequence
from typing import Any

from falcon.asgi import App, Request, Response

from mlxctl.protocols import DIALECTS, anthropic_error, openai_error
from mlxctl.server.http.disconnect import Application, DisconnectWatch
from mlxctl.server.http.error_handlers import ErrorHandlers
from mlxctl.server.http.open_requests import OpenHttpRequests
from mlxctl.server.http.root_path import RootPath
from mlxctl.server.http.route import Route, RouteContext, ServerOwner
from mlxctl.server.http.unknown_paths import UnknownPaths
from mlxctl.server.http.upload_turns import UploadTurns
from mlxctl.server.http.web_sockets import SocketService, WebSockets
from mlxctl.server.middleware.allowed_hosts import AllowedHosts
from mlxctl.server.middleware.authentication import Authentication
from mlxctl.server.middleware.body_memory import BodyAccounts, BodyMemory
from mlxctl.server.middleware.browser_requests import BrowserRequests
from mlxctl.server.middleware.calls import Calls
from mlxctl.server.middleware.cross_origin import CrossOrigin
from mlxctl.server.middleware.header_limit import HeaderLimit
from mlxctl.server.middleware.request_id import RequestId
from mlxctl.server.middleware.request_recording import RequestRecording
from mlxctl.server.middleware.unused_bodies import UnusedBodies
from mlxctl.server.observe.access_log import AccessLog
from mlxctl.server.observe.audit import AuditRecorder
from mlxctl.server.observe.tracing import RequestTracing
from mlxctl.server.resources.agents.agent_queue import AgentQueue
from mlxctl.server.routes import admin, all_routes, health, page
from mlxctl.server.wiring import Services
from mlxctl.state.settings import ServerSettings


def create_app(
    services: Services,
    settings: ServerSettings,
    open_requests: OpenHttpRequests | None = None,
    *,
    tracing: RequestTracing | None = None,
    owner: ServerOwner = "serve",
) -> Application:
    """Return the ASGI application; a graceful stop waits for `open_requests`."""
    routes = all_routes(has_page=settings.status_page)
    open_requests = open_requests or OpenHttpRequests()
    context = RouteContext(
        services=services,
        settings=settings,
        open_requests=open_requests,
        agent_queue=AgentQueue(max_waiting=settings.agent_queue),
        routes=routes,
        tracing=tracing,
        owner=owner,
    )
    app: App[Request, Response] = App(middleware=_middleware(settings, routes, context))
    sockets: dict[str, SocketService] = {}
    for route in routes:
        resource: Any = route.resource(context)
        if hasattr(resource, "socket"):
            sockets |= dict.fromkeys(route.paths, resource.socket)
        if hasattr(resource, "on_get"):
            # The server sends no body.
            resource.on_head = resource.on_get
        for path in route.paths:
            app.add_route(path, resource)
    app.add_sink(UnknownPaths(routes).refuse, prefix="")
    app.req_options.strip_url_path_trailing_slash = True
    ErrorHandlers(
        {
            path: route.render_error
            for route in routes
            if route.render_error is not None
            for path in route.paths
        },
        by_header={"anthropic-version": anthropic_error},
        by_prefix={
            prefix: render
            for dialect in DIALECTS.values()
            for prefix, render in dialect.error_prefixes.items()
        },
        default=openai_error,
    ).install(app)
    longest = max(settings.request_timeout_seconds, *settings.timeouts.values(), 0.0)
    watched = DisconnectWatch(app, body_seconds=min(settings.body_timeout_seconds, longest))
    served = WebSockets(watched, sockets, open_requests, message_seconds=settings.body_timeout_seconds)
    return RootPath(served, settings.root_path or "")


def _recording(settings: ServerSettings, routes: Sequence[Route], context: RouteContext) -> RequestRecording:
    """Return the middleware that hands ended requests to the recorders."""
    quiet = [path for route in (*admin.ROUTES, *health.ROUTES, *page.ROUTES) for path in route.paths]
    recorders = [
        AccessLog(quiet_routes=quiet, shows_content=settings.log_content).record,
        context.http_requests.record,
    ]
    audit = context.services.audit
    if audit is not None:
        recorders.append(AuditRecorder(audit, quiet_routes=quiet).record)
    protocols = {
        path: route.protocol.vendor for route in routes if route.protocol is not None for path in route.paths
    }
    if context.tracing is not None:
        recorders.append(context.tracing.record)
    return RequestRecording(
        recorders,
        protocols,
        keeps_content=settings.log_content or audit is not None,
        tracing=context.tracing,
    )


def _middleware(settings: ServerSettings, routes: Sequence[Route], context: RouteContext) -> list[Any]:
    """Return the middleware in the order in which requests pass it."""
    by_path = {path: route for route in routes for path in route.paths}
    return [
        RequestId(),
        _recording(settings, routes, context),
        HeaderLimit(settings.max_header_bytes),
        AllowedHosts(context.services.policy, bound_host=settings.host, allowed_hosts=settings.allowed_hosts),
        *([CrossOrigin(settings.cors_origins)] if settings.cors_origins else []),
        BrowserRequests(settings.cors_origins, by_path),
        Authentication(context.services.policy, by_path),
        BodyAccounts(
            BodyMemory(max(settings.max_bodies_bytes, settings.max_body_bytes)),
            UploadTurns(2 * settings.max_body_bytes, max_wait_seconds=settings.body_timeout_seconds),
        ),
        UnusedBodies(routes),
        Calls(context.services.policy, settings, server_id=context.services.router.server_id),
    ]
