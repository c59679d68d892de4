"""Refuse what a page in a browser may send to any address without asking.

SEC: a browser asks a server before it sends JSON for a page of another origin, and takes no answer for a no.
A POST with plain text, or with nothing, it just sends; the page cannot read the answer, but what was asked
for is done.
"""

from collections.abc import Sequence

import falcon
from falcon.asgi import Request, Response

from mlxctl.errors import InvalidRequest


class BrowserRequests:
    """Programs send no `origin`, and are let in with any content type."""

    def __init__(self, allowed_origins: Sequence[str]) -> None:
        self._origins = frozenset(allowed_origins)

    async def process_request(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Raise InvalidRequest for a page that did not ask."""
        origin = request.get_header("origin")
        if request.method != "POST" or origin is None or {origin, "*"} & self._origins:
            return
        if not (request.content_type or "").lower().startswith(falcon.MEDIA_JSON):
            message = f"a page of {origin!r} may not do this; add it to server.cors_origins, or send application/json"
            raise InvalidRequest(message, code="origin_not_allowed")
