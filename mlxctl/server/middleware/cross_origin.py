"""Cross-origin requests (CORS) from configured origins.

SEC: `access-control-allow-credentials` is never sent; callers send their key in a header.
"""

from collections.abc import Sequence
from typing import Any

import falcon
from falcon.asgi import Request, Response

_PREFLIGHT_SECONDS = 600
_EXPOSED = ", ".join(
    [
        "x-request-id",
        "request-id",
        "retry-after",
        *(
            name
            for what in ("requests", "tokens")
            for value in ("limit", "remaining", "reset")
            for name in (f"x-ratelimit-{value}-{what}", f"anthropic-ratelimit-{what}-{value}")
        ),
    ]
)


class CrossOrigin:
    """Answers preflights and adds the CORS headers for allowed origins."""

    def __init__(self, origins: Sequence[str]) -> None:
        self._origins = frozenset(origins)

    async def process_request(self, request: Request, response: Response) -> None:
        """Answer a preflight of an allowed origin before authentication."""
        wanted = request.get_header("access-control-request-method")
        if request.method != "OPTIONS" or not wanted or self._allowed(request) is None:
            return
        response.set_headers(
            {
                "access-control-allow-methods": wanted,
                "access-control-allow-headers": request.get_header("access-control-request-headers") or "*",
                "access-control-max-age": str(_PREFLIGHT_SECONDS),
            }
        )
        response.status = falcon.HTTP_204
        response.complete = True

    async def process_response(self, request: Request, response: Response, _: Any, __: bool) -> None:
        """Add the CORS headers."""
        response.append_header("vary", "Origin")
        if (allowed := self._allowed(request)) is not None:
            response.set_headers(
                {"access-control-allow-origin": allowed, "access-control-expose-headers": _EXPOSED}
            )

    def _allowed(self, request: Request) -> str | None:
        origin = request.get_header("origin")
        if origin is None:
            return None
        if "*" in self._origins:
            return "*"
        return origin if origin in self._origins else None
