"""ASGI wrapper that serves WebSockets beside the HTTP application. Event-loop thread only.

A handshake goes through the application as a GET: host, origin, key, rights and path are checked as for any
request.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from falcon.asgi import Request

from mlxctl.inference.call_context import CallContext
from mlxctl.ir.errors import MlxctlError
from mlxctl.server.http.disconnect import Application, Receive, Scope, Send
from mlxctl.server.http.open_requests import OpenHttpRequests
from mlxctl.server.http.socket_exchange import HttpExchange
from mlxctl.server.http.socket_places import SocketPlaces
from mlxctl.server.http.web_socket import SocketLimits, WebSocket
from mlxctl.server.middleware.body_memory import BodyAccount
from mlxctl.server.policy.caller import call_of

HANDSHAKE = "mlxctl.handshake"
"""Key of the Handshake in the ASGI scope of a request that opens a WebSocket."""

# A browser cannot send headers with a handshake: OpenAI's clients send the key so.
_KEY = "openai-insecure-api-key."


class Handshake:
    """What a WebSocket takes from its caller.

    `on_revoked` is called once the caller's key is no longer valid.
    """

    account: BodyAccount
    call: CallContext

    def __init__(self, places: SocketPlaces) -> None:
        self.on_revoked: Callable[[], None] = lambda: None
        self._places = places
        self._at_end: list[Callable[[], object]] = []

    def accept(self, request: Request) -> None:
        """Count a WebSocket of the caller. Raises CapacityError."""
        context, self.call = request.context, call_of(request)
        self._at_end.append(self._places.take(self.call.owner))
        self.account = context.body_account.another()
        self._at_end.append(self.account.close)
        self._at_end.append(context.policy.track(self.call.caller, self._revoked))

    def close(self) -> None:
        """Give back what the WebSocket had."""
        while self._at_end:
            self._at_end.pop()()

    def _revoked(self) -> None:
        self.on_revoked()


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketService:
    """What serves the WebSockets of a path.

    `serve` returns when there is nothing more to serve. `render` makes the message of an error.
    """

    serve: Callable[[WebSocket, Handshake], Awaitable[None]]
    limits: SocketLimits
    render: Callable[[MlxctlError], bytes]
    subprotocol: str | None = None


class WebSockets:
    """Serves WebSockets at the paths of `services`; HTTP requests pass.

    A message is received within `message_seconds`.
    """

    def __init__(
        self,
        application: Application,
        services: Mapping[str, SocketService],
        open_requests: OpenHttpRequests,
        *,
        message_seconds: float,
    ) -> None:
        self.application = application
        self._services = services
        self._open_requests = open_requests
        self._message_seconds = message_seconds
        self._places = SocketPlaces()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self.application(scope, receive, send)
            return
        await receive()
        handshake = Handshake(self._places)
        service = self._services.get(scope["path"].rstrip("/"))
        try:
            # Other paths get the answer to a plain GET.
            marked = {} if service is None else {HANDSHAKE: handshake}
            opening = HttpExchange(b"")
            http_scope = _http_scope(scope)
            await self.application({**http_scope, "method": "GET", **marked}, opening.receive, opening.send)
            if service is not None and opening.status == HTTPStatus.SWITCHING_PROTOCOLS:
                offered = service.subprotocol in scope.get("subprotocols", ())
                await send(
                    {"type": "websocket.accept", "subprotocol": service.subprotocol if offered else None}
                )
                await self._serve(http_scope, receive, send, service, handshake)
                return
        finally:
            handshake.close()
        # Before a WebSocket is accepted, the answer is that of HTTP.
        await send({**opening.started, "type": "websocket.http.response.start"})
        await send({"type": "websocket.http.response.body", "body": opening.received})

    async def _serve(
        self, scope: Scope, receive: Receive, send: Send, service: SocketService, handshake: Handshake
    ) -> None:
        socket = WebSocket(
            self.application,
            scope,
            receive,
            send,
            account=handshake.account,
            message_seconds=self._message_seconds,
            limits=service.limits,
            render=service.render,
        )
        handshake.on_revoked = socket.revoke
        closed = self._open_requests.call_at_stop(socket.close)
        try:
            await service.serve(socket, handshake)
        finally:
            closed()
            await socket.finish()


def _http_scope(scope: Scope) -> Scope:
    """Return the scope that all requests of a WebSocket share."""
    scheme = {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"])
    headers = [(bytes(name), bytes(value)) for name, value in scope["headers"]]
    keys = [each.removeprefix(_KEY) for each in scope.get("subprotocols", ()) if each.startswith(_KEY)]
    if keys and not any(name == b"authorization" for name, _ in headers):
        headers.append((b"authorization", f"Bearer {keys[0]}".encode()))
    return {**scope, "type": "http", "http_version": "1.1", "scheme": scheme, "headers": headers}
