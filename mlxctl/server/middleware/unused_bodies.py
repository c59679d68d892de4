"""Reads bodies that no operation uses; announces unread ones."""

from collections.abc import Iterable
from contextlib import suppress

from falcon.asgi import Request, Response

from mlxctl.ir.errors import BodyTooLarge
from mlxctl.server.http.body import discard_body
from mlxctl.server.http.disconnect import has_unread_body
from mlxctl.server.http.route import Route

_MAX_BODY_BYTES = 64 * 1024


class UnusedBodies:
    """Drops the body of a request whose operation takes none.

    Requests without a body are not delayed.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        self._with_body = {
            (path, operation.method.upper())
            for route in routes
            for operation in route.operations
            if operation.takes_body
            for path in route.paths
        }

    async def process_resource(self, request: Request, *_: object) -> None:
        """Read an unused body. Raises InvalidRequest, BodyTooLarge, BodyTooSlow."""
        if (request.uri_template, request.method) not in self._with_body:
            await _discard(request)

    async def process_response(self, request: Request, response: Response, _: object, __: bool) -> None:
        """Announce the end of a connection with an unread body.

        The server closes it then, and a client that uses it again would get no answer.
        """
        if has_unread_body(request.scope):
            response.set_header("connection", "close")


async def discard_unread(request: Request) -> None:
    """Read a body of a request without route. Raises InvalidRequest, BodyTooSlow."""
    with suppress(BodyTooLarge):
        await _discard(request)


async def _discard(request: Request) -> None:
    if request.content_length or request.get_header("transfer-encoding") is not None:
        await discard_body(request, limit_bytes=_MAX_BODY_BYTES)
