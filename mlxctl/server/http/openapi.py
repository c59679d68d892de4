"""The OpenAPI 3.1 document of the route table."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Literal, get_args, get_type_hints

import msgspec
from falcon.asgi import Request, Response
from msgspec import Struct

from mlxctl import __version__
from mlxctl.protocols.anthropic.errors import AnthropicError
from mlxctl.protocols.json_union import JsonUnion
from mlxctl.protocols.openai.errors import OpenAIError
from mlxctl.protocols.problem import PROBLEM_MEDIA_TYPE, Problem, problem_error
from mlxctl.server.http.answer import answer
from mlxctl.server.http.deadline import timeout_seconds
from mlxctl.server.http.route import Operation, Route
from mlxctl.state.settings import ServerSettings

# Errors of any request: malformed, no valid key, headers too large.
# Errors of any body: too slow, too large, compressed.
_ALWAYS = (400, 401, 431)
_WITH_BODY = (408, 413, 415)
_TO_ADMINISTER = (403,)
_KEYS = {
    "key": {"type": "http", "scheme": "bearer", "description": "An API key, where the server has any"},
    "admin_key": {
        "type": "http",
        "scheme": "bearer",
        "description": "An admin key, where the server has any",
    },
}
_REF = "#/components/schemas/{name}"
_MEDIA: dict[type[Any], str] = {str: "text/plain", bytes: "audio/*"}
_OTHER_PHRASES = {499: "Request Cancelled", 529: "Overloaded"}


class Document(Struct):
    """Root object of an OpenAPI document."""

    openapi: Literal["3.1.0"]
    info: dict[str, str]
    servers: list[dict[str, str]]
    paths: dict[str, Any]
    components: dict[str, Any]
    security: list[dict[str, list[str]]]


class OpenApiResource:
    """GET /openapi.json, built at the first request of a root path."""

    def __init__(self, routes: Sequence[Route], settings: ServerSettings) -> None:
        self._routes = routes
        self._settings = settings
        # An application may be mounted at several places.
        self._encoded = lru_cache(maxsize=8)(self._encode)

    async def on_get(self, request: Request, response: Response) -> None:
        """Answer with the document."""
        answer(response, self._encoded(request.root_path))

    def _encode(self, root_path: str) -> bytes:
        return msgspec.json.encode(build_document(self._routes, self._settings, root_path=root_path))


def build_document(
    routes: Sequence[Route], settings: ServerSettings | None = None, *, root_path: str = ""
) -> dict[str, Any]:
    """Return the document of a table of routes, which are below `root_path`.

    Each type is described once. With `settings`, operations that may time out have their limit as
    `x-timeout-seconds`.
    """
    types = list(dict.fromkeys(kind for route in routes for kind in (*_types(route), *_union_members())))
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF, schema_hook=_union_schema)
    schema_of = dict(zip(types, schemas, strict=True))
    operations = [operation for route in routes for operation in route.operations]
    for form in {operation.form for operation in operations if operation.form is not None}:
        _as_parts(components[form.__name__])
    paths = {
        route.documented_path: {
            operation.method: _describe(route, operation, schema_of) for operation in route.operations
        }
        for route in routes
        if route.operations
    }
    if settings is not None:
        for path, described in paths.items():
            for operation in described.values():
                if "504" in operation["responses"]:
                    operation["x-timeout-seconds"] = timeout_seconds(path, settings)
    return {
        "openapi": "3.1.0",
        "info": {"title": "mlxctl", "version": __version__},
        "servers": [{"url": root_path or "/"}],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": _KEYS},
        "security": [{}, {"key": []}],
    }


def _types(route: Route) -> Iterable[type[Any]]:
    for operation in route.operations:
        yield from _answers(operation)
        yield from operation.events
        yield from _error_types(route)
        yield from (body for body in (operation.body, operation.form) if body is not None)


def _union_members() -> Iterable[type[Any]]:
    return (member for union in JsonUnion.__subclasses__() for member in union.__subclasses__())


def _union_schema(union: type[JsonUnion]) -> dict[str, Any]:
    """Return the schema of a union, shaped as msgspec's tagged unions."""
    refs = {
        get_args(get_type_hints(member)["type"])[0]: _REF.format(name=member.__name__)
        for member in union.__subclasses__()
    }
    return {
        "anyOf": [{"$ref": ref} for ref in refs.values()],
        "discriminator": {"propertyName": "type", "mapping": refs},
    }


def _error_types(route: Route) -> tuple[type[Any], ...]:
    if route.protocol is None:
        return (Problem,) if route.render_error is problem_error else (OpenAIError, AnthropicError)
    return (route.protocol.error,)


def _answers(operation: Operation) -> tuple[type[Any], ...]:
    return operation.answer, *operation.other_answers


def _as_parts(form: dict[str, Any]) -> None:
    """Describe the bytes of a form as raw, not base64."""
    for name, schema in form["properties"].items():
        if schema.get("contentEncoding") == "base64":
            form["properties"][name] = {"type": "string", "contentMediaType": "application/octet-stream"}


def _describe(
    route: Route, operation: Operation, schema_of: dict[type[Any], dict[str, Any]]
) -> dict[str, Any]:
    path = route.documented_path
    described: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": re.sub(r"\W+", "_", f"{operation.method} {path}").strip("_"),
        "parameters": [*_path_parameters(path), *_query_parameters(operation)],
        "responses": _responses(route, operation, schema_of),
    }
    if route.needs_admin:
        described["security"] = [{}, {"admin_key": []}]
    bodies = {"application/json": operation.body, "multipart/form-data": operation.form}
    content = {kind: {"schema": schema_of[body]} for kind, body in bodies.items() if body is not None}
    if content:
        described["requestBody"] = {"required": True, "content": content}
    return described


def _responses(
    route: Route, operation: Operation, schema_of: dict[type[Any], dict[str, Any]]
) -> dict[str, Any]:
    kinds: dict[str, list[dict[str, Any]]] = {}
    for kind in _answers(operation):
        schema = {"type": "string", "format": "binary"} if kind is bytes else schema_of[kind]
        kinds.setdefault(_MEDIA.get(kind, "application/json"), []).append(schema)
    content: dict[str, Any] = {
        media_type: {"schema": _one_of(schemas)} for media_type, schemas in kinds.items()
    }
    if operation.events:
        events = [schema_of[kind] for kind in operation.events]
        is_lines = operation.stream_media_type != "text/event-stream"
        content[operation.stream_media_type] = {"schema": _lines(events) if is_lines else _stream(events)}
    media_type = PROBLEM_MEDIA_TYPE if route.render_error is problem_error else "application/json"
    refusal = {media_type: {"schema": _one_of([schema_of[kind] for kind in _error_types(route)])}}
    more = (*(_WITH_BODY if operation.takes_body else ()), *(_TO_ADMINISTER if route.needs_admin else ()))
    statuses = sorted({*_ALWAYS, *more, *operation.errors})
    refusals = {str(status): {"description": _phrase(status), "content": refusal} for status in statuses}
    return {str(operation.status): {"description": _phrase(operation.status), "content": content}, **refusals}


def _stream(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of a text of server-sent events.

    As content within a string.
    """
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": _one_of(events)}
    event = {
        "type": "object",
        "required": ["data"],
        "properties": {"event": {"type": "string"}, "data": data},
    }
    return {
        "type": "string",
        "contentMediaType": "text/event-stream",
        "contentSchema": {"type": "array", "items": event},
    }


def _lines(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of lines of JSON, as content within a string."""
    return {
        "type": "string",
        "contentMediaType": "application/x-ndjson",
        "contentSchema": {"type": "array", "items": _one_of(events)},
    }


def _one_of(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _path_parameters(path: str) -> list[dict[str, Any]]:
    schema = {"type": "string", "minLength": 1}
    return [
        {"name": name, "in": "path", "required": True, "schema": schema}
        for name in re.findall(r"\{(\w+)\}", path)
    ]


def _query_parameters(operation: Operation) -> list[dict[str, Any]]:
    return [
        {"name": query.name, "in": "query", "required": query.required, "schema": query.schema}
        for query in operation.query
    ]


def _phrase(status: int) -> str:
    return _OTHER_PHRASES.get(status) or HTTPStatus(status).phrase
