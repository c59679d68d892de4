"""The application: one table of routes, and what stands before them.

No protocol is named anywhere else in this room.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from falcon.asgi import App, Request, Response

from mlxctl.bootstrap import Services
from mlxctl.policy import KeyCheck
from mlxctl.protocols import (
    AnthropicMessagesFormatter,
    Formatter,
    OpenAIChatFormatter,
    OpenAICompletionsFormatter,
    anthropic_error,
    openai_error,
)
from mlxctl.server.access import ACCESS, Access
from mlxctl.server.agent_turns import AgentTurnResource
from mlxctl.server.agents import (
    AgentMessagesResource,
    AgentResetResource,
    AgentResource,
    AgentsResource,
    AgentViews,
)
from mlxctl.server.cache import CHANGES, CacheChangeResource, CacheExplanationResource, CacheResource
from mlxctl.server.disconnect import Application, DisconnectWatch
from mlxctl.server.embeddings import EmbeddingsResource
from mlxctl.server.error_handlers import ErrorHandlers
from mlxctl.server.fingerprint import system_fingerprint
from mlxctl.server.generation import GenerationResource
from mlxctl.server.health import GreetingResource, HealthResource, ReadinessResource
from mlxctl.server.library import DownloadsResource, FitResource, LibraryResource, OpenDownloadsResource
from mlxctl.server.metrics import MetricsResource
from mlxctl.server.middleware.allowed_hosts import AllowedHosts
from mlxctl.server.middleware.authentication import Authentication
from mlxctl.server.middleware.browser_requests import ForeignPages
from mlxctl.server.middleware.cross_origin import CrossOrigin
from mlxctl.server.middleware.header_limit import HeaderLimit
from mlxctl.server.middleware.request_id import RequestId
from mlxctl.server.model_admin import ModelActionResource
from mlxctl.server.models import ModelResource, ModelsResource
from mlxctl.server.open_requests import OpenRequests
from mlxctl.server.openapi import OpenApiResource
from mlxctl.server.responses import (
    CancellationResource,
    InputItemsResource,
    KeptResponseResource,
    ResponsesResource,
)
from mlxctl.server.stats import RequestsResource, StatsResource
from mlxctl.server.token_count import TokenCountResource
from mlxctl.server.transcriptions import TranscriptionsResource
from mlxctl.settings import ServerSettings


def create_app(
    services: Services, settings: ServerSettings, open_requests: OpenRequests | None = None
) -> Application:
    """Return the ASGI application. `open_requests` is what a graceful stop waits for."""
    routes = create_routes(services, settings, open_requests or OpenRequests())
    access = {template: ACCESS[template] for template in routes}
    app: App[Request, Response] = App(middleware=_middleware(settings, access))
    for template, resource in routes.items():
        app.add_route(template, resource)
    ErrorHandlers(
        {
            **{
                template: openai_error
                for template in routes
                if template.startswith(("/v1/agents", "/v1/responses/"))
            },
            "/v1/chat/completions": openai_error,
            "/v1/completions": partial(openai_error, prompt_field="prompt"),
            "/v1/embeddings": partial(openai_error, prompt_field="input"),
            "/v1/responses": partial(openai_error, prompt_field="input"),
            "/v1/audio/transcriptions": openai_error,
            "/v1/audio/translations": openai_error,
            "/v1/messages": anthropic_error,
            "/v1/messages/count_tokens": anthropic_error,
        },
        marked={"anthropic-version": anthropic_error},
        usual=openai_error,
    ).install(app)
    return DisconnectWatch(
        app, body_seconds=min(settings.body_timeout_seconds, settings.request_timeout_seconds)
    )


def create_routes(services: Services, settings: ServerSettings, requests: OpenRequests) -> dict[str, object]:
    """Return all resources by their templates.

    What is added here needs a line in `access` and in `openapi.operations`, too.
    """
    inference, catalog = services.inference, services.catalog
    agents = AgentViews(services.agents, inference)

    def generation(create_formatter: Callable[[], Formatter]) -> GenerationResource[Formatter]:
        return GenerationResource(inference, create_formatter, requests, settings)

    return {
        "/v1/chat/completions": generation(
            lambda: OpenAIChatFormatter(system_fingerprint=system_fingerprint())
        ),
        "/v1/completions": generation(
            lambda: OpenAICompletionsFormatter(system_fingerprint=system_fingerprint())
        ),
        "/v1/embeddings": EmbeddingsResource(inference, requests, settings),
        "/v1/audio/transcriptions": TranscriptionsResource(inference, requests, settings, task="transcribe"),
        "/v1/audio/translations": TranscriptionsResource(inference, requests, settings, task="translate"),
        "/v1/responses": ResponsesResource(inference, services.responses, requests, settings),
        "/v1/responses/{response_id}": KeptResponseResource(services.responses),
        "/v1/responses/{response_id}/cancel": CancellationResource(services.responses),
        "/v1/responses/{response_id}/input_items": InputItemsResource(services.responses),
        "/v1/agents": AgentsResource(agents, settings),
        "/v1/agents/{agent_id}": AgentResource(agents, settings),
        "/v1/agents/{agent_id}/messages": AgentMessagesResource(agents),
        "/v1/agents/{agent_id}/reset": AgentResetResource(agents),
        "/v1/agents/{agent_id}/generate": AgentTurnResource(inference, services.agents, requests, settings),
        "/v1/messages": generation(AnthropicMessagesFormatter),
        "/v1/messages/count_tokens": TokenCountResource(inference, settings),
        "/v1/models": ModelsResource(inference, catalog),
        "/v1/models/{name:path}": ModelResource(inference, catalog),
        "/models/load": ModelActionResource(inference.pool.load),
        "/models/unload": ModelActionResource(inference.pool.unload),
        "/models/pin": ModelActionResource(partial(inference.pool.pin, is_pinned=True)),
        "/models/unpin": ModelActionResource(partial(inference.pool.pin, is_pinned=False)),
        "/library": LibraryResource(catalog),
        "/downloads": (OpenDownloadsResource if catalog.allows_downloads else DownloadsResource)(catalog),
        "/fit": FitResource(catalog, inference),
        "/openapi.json": OpenApiResource(allows_downloads=catalog.allows_downloads),
        "/cache": CacheResource(inference),
        "/cache/explain": CacheExplanationResource(inference, settings),
        **{f"/cache/{action}": CacheChangeResource(inference, action) for action in CHANGES},
        "/stats": StatsResource(inference, services.responses),
        "/requests": RequestsResource(inference),
        "/metrics": MetricsResource(inference),
        "/health": HealthResource(inference, requests),
        "/readyz": ReadinessResource(inference),
        "/livez": GreetingResource(),
        "/api/hello": GreetingResource(),
        "/": GreetingResource(),
    }


def _middleware(settings: ServerSettings, access: Mapping[str, Access]) -> list[Any]:
    """Return what every request passes on its way in, in this order."""
    return [
        RequestId(),
        HeaderLimit(settings.max_header_bytes),
        AllowedHosts(bound_host=settings.host, allowed_hosts=settings.allowed_hosts),
        *([CrossOrigin(settings.cors_origins)] if settings.cors_origins else []),
        ForeignPages(settings.cors_origins),
        Authentication(KeyCheck(settings.api_keys, settings.admin_keys, settings.cache_groups), access),
    ]
