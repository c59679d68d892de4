"""Refuse cross-site POST requests that browsers send without a preflight.

SEC: a browser asks before it sends JSON to another origin. A POST with plain text or without a body it sends
at once; the page cannot read the answer, but the request takes effect.
"""

from collections.abc import Sequence

import falcon
from falcon.asgi import Request, Response

from mlxctl.errors import InvalidRequest


class BrowserRequests:
    """Rejects POST requests of other origins without a preflight.

    Requests without an `Origin` header come from programs and may have any content type.
    """

    def __init__(self, allowed_origins: Sequence[str]) -> None:
        self._origins = frozenset(allowed_origins)

    async def process_request(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Raise InvalidRequest for a foreign origin's POST without preflight."""
        origin = request.get_header("origin")
        if request.method != "POST" or origin is None or {origin, "*"} & self._origins:
            return
        if not (request.content_type or "").lower().startswith(falcon.MEDIA_JSON):
            message = (
                f"origin {origin!r} is not allowed; add it to server.cors_origins, or send application/json"
            )
            raise InvalidRequest(message, code="origin_not_allowed")
