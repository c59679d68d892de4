"""Routes of health probes, and of the API description."""

from mlxctl.server.http.openapi import Document, OpenApiResource
from mlxctl.server.http.route import Operation, Route
from mlxctl.server.observe.health import (
    Greeting,
    GreetingResource,
    Health,
    HealthResource,
    Healthz,
    HealthzResource,
    Liveness,
    LivenessResource,
    Readiness,
    ReadinessResource,
    ServerLoad,
    ServerLoadResource,
    Unreadiness,
)
from mlxctl.server.web import RootResource

ROUTES = (
    Route(
        path="/health",
        aliases=("/v1/health",),
        resource=lambda context: HealthResource(
            context.services.inference,
            context.services.agents,
            context.agent_queue,
            context.open_requests,
        ),
        access="open",
        operations=(Operation(method="get", summary="Get the server's status", answer=Health),),
    ),
    Route(
        path="/readyz",
        resource=lambda context: ReadinessResource(
            context.services.inference, ready_when=context.settings.ready_when
        ),
        access="open",
        operations=(
            Operation(
                method="get",
                summary="Check readiness: 200 when requests are accepted",
                answer=Readiness,
                other_answers=(Unreadiness,),
                errors=(503,),
            ),
        ),
    ),
    Route(
        path="/healthz",
        resource=lambda context: HealthzResource(context.services.inference),
        access="open",
        operations=(Operation(method="get", summary="Check health: ok or degraded", answer=Healthz),),
    ),
    Route(
        path="/livez",
        resource=lambda _: LivenessResource(),
        access="open",
        operations=(Operation(method="get", summary="Check liveness", answer=Liveness),),
    ),
    Route(
        path="/api/hello",
        resource=lambda _: GreetingResource(),
        access="open",
        operations=(Operation(method="get", summary="Check liveness", answer=Greeting),),
    ),
    Route(
        path="/load",
        resource=lambda context: ServerLoadResource(context.open_requests),
        access="caller",
        operations=(Operation(method="get", summary="Count the open requests (vLLM)", answer=ServerLoad),),
    ),
    Route(
        path="/version",
        resource=lambda _: GreetingResource(),
        access="caller",
        operations=(Operation(method="get", summary="Get the server's version (vLLM)", answer=Greeting),),
    ),
    Route(
        path="/",
        resource=lambda context: RootResource() if context.settings.status_page else GreetingResource(),
        access="open",
        operations=(
            Operation(
                method="get",
                summary="Get the server's name and version; browsers get the web page",
                answer=Greeting,
            ),
        ),
    ),
    Route(
        path="/openapi.json",
        resource=lambda context: OpenApiResource(context.routes, context.settings),
        access="caller",
        operations=(Operation(method="get", summary="Get this OpenAPI document", answer=Document),),
    ),
)
