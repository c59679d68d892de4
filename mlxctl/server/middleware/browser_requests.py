"""Refuse requests of web pages that must not take effect.

SEC: a browser sends a preflight before it sends JSON to another origin. A POST with plain text or without a
body is sent at once: the page cannot read the answer, but the request takes effect. A WebSocket is opened at
once, and the page can read its messages. With `*` as allowed origin every page may send everything; only a
key protects the server then.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import falcon
from falcon.asgi import Request, Response

from mlxctl.errors import InvalidRequest
from mlxctl.server.route import Route

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class BrowserRequests:
    """Rejects WebSockets and POST requests of other origins without a preflight.

    On a server without keys, rejects all changes by other origins. Requests without an `Origin` header come
    from programs and may have any content type. `routes` are by path.
    """

    def __init__(self, allowed_origins: Sequence[str], routes: Mapping[str, Route]) -> None:
        self._origins = frozenset(allowed_origins)
        self._routes = routes

    async def process_request(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Raise InvalidRequest for a foreign origin's POST without preflight, or WebSocket."""
        origin = request.get_header("origin")
        if origin is None or {origin, "*"} & self._origins:
            return
        if (request.get_header("upgrade") or "").lower() == "websocket" and not _is_own(request, origin):
            message = f"origin {origin!r} is not allowed; add it to server.cors_origins"
            raise InvalidRequest(message, code="origin_not_allowed")
        if request.method != "POST":
            return
        if not (request.content_type or "").lower().startswith(falcon.MEDIA_JSON):
            message = (
                f"origin {origin!r} is not allowed; add it to server.cors_origins, or send application/json"
            )
            raise InvalidRequest(message, code="origin_not_allowed")

    async def process_resource(
        self,
        request: Request,
        response: Response,  # noqa: ARG002
        _: object,
        __: dict[str, Any],
    ) -> None:
        """Raise InvalidRequest for a foreign origin that changes a server without keys."""
        origin = request.get_header("origin")
        if origin is None or request.method in _SAFE_METHODS or request.context.identity.name:
            return
        if (
            not _is_own(request, origin)
            and origin not in self._origins
            and self._routes[request.uri_template or ""].needs_admin
        ):
            raise InvalidRequest(
                f"origin {origin!r} may not change a server without keys; add the origin itself to "
                "server.cors_origins, or set an API key",
                code="origin_not_allowed",
            )


def _is_own(request: Request, origin: str) -> bool:
    """Whether a request comes from a page of this server."""
    # Pages cannot set `sec-fetch-site`. A proxy may have changed the Host header.
    return (
        urlsplit(origin).netloc == request.get_header("host")
        or request.get_header("sec-fetch-site") == "same-origin"
    )
