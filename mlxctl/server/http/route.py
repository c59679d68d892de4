"""One route: path, resource, protocol, access and documented operations."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from mlxctl.ir.policy import USER_SCOPES, Scope
from mlxctl.protocols import ErrorBody, WireProtocol, problem_error
from mlxctl.server.http.open_requests import OpenHttpRequests
from mlxctl.server.observe.metric_families import HttpRequestCounts
from mlxctl.server.observe.tracing import RequestTracing
from mlxctl.server.resources.agents.agent_queue import AgentQueue
from mlxctl.server.wiring import Services
from mlxctl.state.settings import ServerSettings

Access = Literal["open", "caller"] | Scope
"""The key that a route needs on a server with API keys.

`open` needs none and shows nothing about callers. `caller` needs any key and shows what belongs to that key.
Others need a key with that scope.
"""


ServerOwner = Literal["serve", "embedded"]
"""What started the server: `mlxctl serve`, or a program that mounts it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query parameter; `schema` is its JSON schema."""

    name: str
    schema: dict[str, Any]
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of a route, as `/openapi.json` describes it.

    `answer` and `other_answers` are types of whole bodies; `str` is plain text, `bytes` audio, others JSON.
    `body` is the type of a JSON body, `form` the type of a multipart form; with both, requests choose.
    `events` are the types of the events of a stream, empty if the operation does not stream. `errors` are the
    error statuses besides those that every route has.
    """

    method: Literal["get", "post", "put", "patch", "delete"]
    summary: str
    answer: type[Any]
    other_answers: tuple[type[Any], ...] = ()
    body: type[Any] | None = None
    form: type[Any] | None = None
    query: tuple[Query, ...] = ()
    status: int = 200
    events: tuple[type[Any], ...] = ()
    stream_media_type: str = "text/event-stream"
    errors: tuple[int, ...] = ()

    @property
    def takes_body(self) -> bool:
        """Whether requests have a body."""
        return self.body is not None or self.form is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """An entry of the route table.

    `path` is a Falcon template. `aliases` are other paths that clients use. `resource` creates the Falcon
    resource. With `covers_all_callers` the route shows or changes data of other callers: an API key of the
    settings may use it only if it is the only key or an admin key. `protocol` decides the shape of errors.
    Routes without one answer with problem details (RFC 9457). Those under `/v1/`, which clients of several
    vendors use, take the client's shape: Anthropic's for requests with an `anthropic-version` header, else
    OpenAI's.
    """

    path: str
    resource: Callable[["RouteContext"], object]
    access: Access
    operations: tuple[Operation, ...]
    covers_all_callers: bool = False
    protocol: WireProtocol | None = None
    aliases: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """The path and its aliases."""
        return self.path, *self.aliases

    @property
    def render_error(self) -> Callable[..., ErrorBody] | None:
        """Renderer of error responses; None where the client decides their shape."""
        if self.protocol is not None:
            return self.protocol.render_error
        return None if self.path.startswith("/v1/") else problem_error

    @property
    def documented_path(self) -> str:
        """The path as OpenAPI writes it."""
        return self.path.replace(":path}", "}")

    @property
    def needs_admin(self) -> bool:
        """Whether the route needs an admin key where admin keys are configured."""
        return self.access not in ("open", "caller", *USER_SCOPES)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteContext:
    """Everything that resources are created from.

    `routes` is the whole table. `http_requests` counts stopped and denied ones. `agent_queue` orders the
    turns of agents.
    """

    services: Services
    settings: ServerSettings
    open_requests: OpenHttpRequests
    agent_queue: AgentQueue
    routes: tuple[Route, ...] = ()
    http_requests: HttpRequestCounts = field(default_factory=HttpRequestCounts)
    tracing: RequestTracing | None = None
    owner: ServerOwner = "serve"


GENERATION_ERRORS = (404, 429, 499, 500, 503, 504)
LOAD_ERRORS = (404, 429, 500, 503, 504, 529)
PAGE_LIMIT = Query(name="limit", schema={"type": "integer", "minimum": 1, "maximum": 100})
PAGE_AFTER = Query(name="after", schema={"type": "string"})
