"""Refuse requests of web pages that must not take effect.

SEC: a browser sends a preflight before it sends JSON to another origin. A POST with plain text or without a
body is sent at once: the page cannot read the answer, but the request takes effect. A WebSocket is opened at
once, and the page can read its messages. With `*` as allowed origin every page may send everything and read
the answer, so on a server without keys it may only list models and generate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

import falcon
from falcon.asgi import Request, Response

from mlxctl.ir.errors import InvalidRequest
from mlxctl.ir.policy import USER_SCOPES
from mlxctl.server.http.route import Route
from mlxctl.server.http.web_sockets import HANDSHAKE

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITES = frozenset({None, "same-origin", "none"})


class BrowserRequests:
    """Rejects WebSockets and POST requests of other origins without a preflight.

    On a server without keys, other origins may list models and generate, nothing else. Requests without an
    `Origin` header come from programs and may have any content type. `routes` are by path.
    """

    def __init__(self, allowed_origins: Sequence[str], routes: Mapping[str, Route]) -> None:
        self._origins = frozenset(allowed_origins)
        self._routes = routes

    async def process_request(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Raise InvalidRequest for a foreign origin's POST without preflight, or WebSocket."""
        origin = _origin(request)
        if origin is None or {origin, "*"} & self._origins:
            return
        if HANDSHAKE in request.scope and not _is_own(request, origin):
            message = f"origin {origin!r} is not allowed; add it to server.cors_origins"
            raise InvalidRequest(message, code="origin_not_allowed")
        if request.method != "POST":
            return
        if not (request.content_type or "").lower().startswith(falcon.MEDIA_JSON):
            message = (
                f"origin {origin!r} is not allowed; add it to server.cors_origins, or send application/json"
            )
            raise InvalidRequest(message, code="origin_not_allowed")

    async def process_resource(self, request: Request, *_: object) -> None:
        """Limit a foreign origin on a server without keys. Raises InvalidRequest."""
        origin = _origin(request)
        identity = request.context.identity
        if origin is None or origin in self._origins or identity.name or _is_own(request, origin):
            return
        if not _is_stateless(request, self._routes[request.uri_template or ""]):
            raise InvalidRequest(
                f"origin {origin!r} may only list models and generate on a server without keys; add the "
                "origin itself to server.cors_origins, or set an API key",
                code="origin_not_allowed",
            )
        # Fields of a generation change the server, too: `keep_alive` unloads a model.
        scopes = identity.scopes & frozenset(USER_SCOPES)
        request.context.identity = replace(identity, scopes=scopes, sees_others=False)


def _origin(request: Request) -> str | None:
    """Return the origin of a request; None for programs."""
    origin = request.get_header("origin")
    if origin is None and request.method not in _SAFE_METHODS:
        # Not all browsers send an origin with a form.
        return None if request.get_header("sec-fetch-site") in _OWN_SITES else "null"
    return origin


def _is_stateless(request: Request, route: Route) -> bool:
    """Whether a request reads and changes nothing that other clients left."""
    if HANDSHAKE in request.scope or request.method == "OPTIONS":
        return True
    if route.path.startswith("/v1/agents") or route.covers_all_callers:
        return False
    if request.method in _SAFE_METHODS:
        return route.access in ("open", "caller", "models:read")
    # The names in other paths are those of models, responses and requests.
    return request.method == "POST" and not route.needs_admin and "{" not in route.path


def _is_own(request: Request, origin: str) -> bool:
    """Whether a request comes from a page of this server."""
    if not request.context.has_known_host:
        return False
    # Pages cannot set `sec-fetch-site`. A proxy may have changed the Host header.
    return (
        urlsplit(origin).netloc == request.get_header("host")
        or request.get_header("sec-fetch-site") == "same-origin"
    )
