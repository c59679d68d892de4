"""/v1/responses over WebSocket: `response.create` messages, answered one after the other.

Each message goes through the whole application as its POST would: authentication, limits, logs and metrics
are the same. The messages are those of OpenAI's WebSocket mode and of Open Responses' WebSocket transport.
Event-loop thread only.
"""

import asyncio
import logging
from collections.abc import Callable, Collection

import msgspec
from falcon.asgi import Request, Response

from mlxctl.ir.errors import InvalidRequest, MethodNotAllowed, MlxctlError, QueueFull, describe_bytes
from mlxctl.protocols import openai_error
from mlxctl.protocols.decoding import decode_body
from mlxctl.server.http.disconnect import Application, Receive, Scope, Send
from mlxctl.server.http.incoming_message import FULL, POLICY_VIOLATION, IncomingMessage
from mlxctl.server.http.open_requests import OpenHttpRequests
from mlxctl.server.http.socket_exchange import HttpExchange, error_message
from mlxctl.server.http.socket_places import SocketPlaces
from mlxctl.server.middleware.body_memory import BodyAccount
from mlxctl.server.policy.caller import call_of
from mlxctl.server.resources.generation.conversations import UNSTORED_RESPONSE, UnstoredResponse
from mlxctl.server.resources.generation.generation import GenerationResource

# As at OpenAI: https://developers.openai.com/api/docs/guides/websocket-mode
_MAX_SECONDS = 3600.0
# Time without a message; a client that opens another one loses only what was not stored.
_IDLE_SECONDS = 300.0
# Messages that a client may send while a response runs; further ones end the connection.
_MAX_WAITING = 4
HANDSHAKE = "mlxctl.handshake"
"""Key of the Handshake in the ASGI scope of a request that opens a WebSocket."""
# Headers of the handshake that do not belong to the responses.
_HANDSHAKE_HEADERS = frozenset(
    {b"connection", b"content-length", b"content-type", b"transfer-encoding", b"upgrade", b"x-request-id"}
)
_SWITCHING_PROTOCOLS, _UNAUTHORIZED = 101, 401
_NORMAL_CLOSURE, _GOING_AWAY, _NO_STATUS, _TOO_BIG = 1000, 1001, 1005, 1009
_KEY_ENDED = POLICY_VIOLATION, "the API key is no longer valid"
_TOO_BIG_REASON = "a message may have 16 MB in one frame; send a larger one in several frames, or by POST"
_CREATE, _TRUE = msgspec.Raw(b'"response.create"'), msgspec.Raw(b"true")

_MESSAGE = msgspec.json.Decoder(dict[str, msgspec.Raw])
_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode


class Handshake:
    """What a WebSocket takes from its caller.

    `on_revoked` is called once the caller's key is no longer valid.
    """

    account: BodyAccount

    def __init__(self, places: SocketPlaces) -> None:
        self.on_revoked: Callable[[], None] = lambda: None
        self._places = places
        self._at_end: list[Callable[[], object]] = []

    def accept(self, request: Request) -> None:
        """Count a WebSocket of the caller. Raises CapacityError."""
        context, call = request.context, call_of(request)
        self._at_end.append(self._places.take(call.owner))
        self.account = context.body_account.another()
        self._at_end.append(self.account.close)
        self._at_end.append(context.policy.track(call.caller, self._revoked))

    def close(self) -> None:
        """Give back what the WebSocket had."""
        while self._at_end:
            self._at_end.pop()()

    def _revoked(self) -> None:
        self.on_revoked()


class ResponsesSocketResource:
    """/v1/responses: POST creates a response, GET opens a WebSocket."""

    def __init__(self, responses: GenerationResource) -> None:
        self.on_post = responses.on_post

    async def on_get(self, request: Request, response: Response) -> None:
        """Accept a WebSocket.

        Raises CapacityError, and MethodNotAllowed for a plain GET.
        """
        handshake: Handshake | None = request.scope.get(HANDSHAKE)
        if handshake is None:
            raise MethodNotAllowed(request.method, ("POST",))
        handshake.accept(request)
        response.status = _SWITCHING_PROTOCOLS


class ResponsesSocket:
    """ASGI wrapper that serves WebSockets at `paths`; HTTP requests pass.

    `max_bytes` limits the conversation that a connection keeps, and its messages without a response. A
    message is received within `message_seconds`.
    """

    def __init__(
        self,
        application: Application,
        paths: Collection[str],
        open_requests: OpenHttpRequests,
        *,
        max_bytes: int,
        message_seconds: float,
        max_seconds: float = _MAX_SECONDS,
        idle_seconds: float = _IDLE_SECONDS,
    ) -> None:
        self.application = application
        self._paths = frozenset(paths)
        self._open_requests = open_requests
        self._max_bytes = max_bytes
        self._message_seconds = message_seconds
        self._max_seconds = max_seconds
        self._idle_seconds = idle_seconds
        self._places = SocketPlaces()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self.application(scope, receive, send)
            return
        await receive()
        handshake = Handshake(self._places)
        try:
            refusal = await self._refusal(_http_scope(scope), handshake)
            if refusal is None:
                await self._serve(scope, receive, send, handshake)
                return
        finally:
            handshake.close()
        # Before a WebSocket is accepted, the answer is that of HTTP.
        await send({**refusal.started, "type": "websocket.http.response.start"})
        await send({"type": "websocket.http.response.body", "body": refusal.received})

    async def _serve(self, scope: Scope, receive: Receive, send: Send, handshake: Handshake) -> None:
        await send({"type": "websocket.accept"})
        headers = [(name, value) for name, value in scope["headers"] if name not in _HANDSHAKE_HEADERS]
        scope = {**_http_scope(scope), "headers": headers}
        unstored = scope[UNSTORED_RESPONSE] = UnstoredResponse(handshake.account, self._max_bytes)
        connection = _Connection(
            self.application,
            scope,
            receive,
            send,
            account=handshake.account,
            max_bytes=self._max_bytes,
            message_seconds=self._message_seconds,
        )
        handshake.on_revoked = connection.revoke
        closed = self._open_requests.call_at_stop(connection.close)
        try:
            await connection.serve(seconds=self._max_seconds, idle_seconds=self._idle_seconds)
        finally:
            closed()
            unstored.drop()

    async def _refusal(self, scope: Scope, handshake: Handshake) -> HttpExchange | None:
        """Return the answer of an application that refuses the handshake.

        It checks host, origin, key and path. Other paths get its answer to a plain GET.
        """
        opening = HttpExchange(b"")
        has_socket = scope["path"].rstrip("/") in self._paths
        marked = {HANDSHAKE: handshake} if has_socket else {}
        await self.application({**scope, "method": "GET", **marked}, opening.receive, opening.send)
        return None if opening.status == _SWITCHING_PROTOCOLS else opening


class _Connection:
    """One open WebSocket.

    `_close_frame` is the code and the reason with which the server closes it, None if the client closed it.
    """

    def __init__(
        self,
        application: Application,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        account: BodyAccount,
        max_bytes: int,
        message_seconds: float,
    ) -> None:
        self._application = application
        self._scope = scope
        self._receive = receive
        self._send = send
        self._messages: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._max_bytes = max_bytes
        self._num_open, self._num_open_bytes = 0, 0
        self._is_over = asyncio.Event()
        self._close_frame: tuple[int, str] | None = (_GOING_AWAY, "the server stops")
        self._account = account
        self._incoming = IncomingMessage(account, scope, end=self._end, seconds=message_seconds)
        self._reader = asyncio.create_task(self._read(), name="read-websocket")

    async def serve(self, *, seconds: float, idle_seconds: float) -> None:
        """Answer messages until the client leaves, at most for `seconds`.

        A response that runs then is finished first. `idle_seconds` is the longest time without a message.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        try:
            async with asyncio.timeout_at(None) as idle:
                while True:
                    idle.reschedule(min(end, loop.time() + idle_seconds))
                    message = await self._messages.get()
                    if message is None:
                        break
                    idle.reschedule(None)
                    # The request counts its own body.
                    self._account.remove(len(message))
                    await self._answer(message)
                    self._num_open -= 1
                    self._num_open_bytes -= len(message)
        except TimeoutError:
            state, limit = ("open", seconds) if loop.time() >= end else ("without a message", idle_seconds)
            reason = f"a WebSocket may be {state} for {limit / 60:g} minutes; open another one"
            await self._send_error(InvalidRequest(reason, code="websocket_connection_limit_reached"))
            self._close_frame = _NORMAL_CLOSURE, reason
        finally:
            self._reader.cancel()
            self._incoming.close()
        # Granian does not close it while a task waits for a message.
        await asyncio.wait({self._reader})
        if self._close_frame is not None:
            code, reason = self._close_frame
            await self._send({"type": "websocket.close", "code": code, "reason": reason})

    def close(self) -> None:
        """Close the WebSocket after the waiting messages; the server stops."""
        self._messages.put_nowait(None)

    def revoke(self) -> None:
        """Close the WebSocket: the key of its caller is no longer valid."""
        self._end(*_KEY_ENDED)

    def _end(self, code: int, reason: str) -> None:
        """Close the WebSocket without the answers that it waits for."""
        if self._is_over.is_set():
            return
        self._close_frame = code, reason
        self._reader.cancel()
        self._is_over.set()
        while not self._messages.empty():
            self._messages.get_nowait()
        self._messages.put_nowait(None)

    async def _read(self) -> None:
        """Queue messages until the client leaves or sends too many."""
        while (event := await self._receive())["type"] == "websocket.receive":
            message = event.get("bytes") or (event.get("text") or "").encode()
            self._incoming.has_come()
            num_bytes = self._num_open_bytes + len(message)
            if self._num_open and (self._num_open > _MAX_WAITING or num_bytes > self._max_bytes):
                limit = f"{_MAX_WAITING} messages or {describe_bytes(self._max_bytes)}"
                self._close_frame = POLICY_VIOLATION, f"more than {limit} wait for a response"
                break
            try:
                self._account.add(len(message))
            except QueueFull as error:
                await self._send_error(error)
                self._end(*FULL)
                return
            self._num_open, self._num_open_bytes = self._num_open + 1, num_bytes
            self._messages.put_nowait(message)
        else:
            # Granian reports a message that it does not take like a client that left without a word.
            is_unread = event.get("code") == _NO_STATUS
            self._close_frame = (_TOO_BIG, _TOO_BIG_REASON) if is_unread else None
        self._is_over.set()
        self._messages.put_nowait(None)

    async def _answer(self, message: bytes) -> None:
        try:
            body = _request_body(message)
        except InvalidRequest as error:
            await self._send_error(error)
            return
        exchange = HttpExchange(body, send_text=self._send_text, is_over=self._is_over)
        headers = [
            *self._scope["headers"],
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        scope = {**self._scope, "method": "POST", "headers": headers}
        # `gather` makes it a task, which the application cancels when the client leaves.
        (failure,) = await asyncio.gather(
            self._application(scope, exchange.receive, exchange.send), return_exceptions=True
        )
        if isinstance(failure, Exception):
            _log.warning("a response over a WebSocket ended early: %r", failure)
        if exchange.status == _UNAUTHORIZED:
            # A token whose time is over, say.
            self.revoke()

    async def _send_error(self, error: MlxctlError) -> None:
        answer = openai_error(error)
        await self._send_text(error_message(answer.status, answer.body, answer.headers.get("Retry-After")))

    async def _send_text(self, text: bytes) -> None:
        if not self._is_over.is_set():
            await self._send({"type": "websocket.send", "text": text.decode()})


def _http_scope(scope: Scope) -> Scope:
    """Return the scope that all requests of a WebSocket share."""
    scheme = {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"])
    return {**scope, "type": "http", "http_version": "1.1", "scheme": scheme}


def _request_body(message: bytes) -> bytes:
    """Return the body of the message's POST. Raises InvalidRequest."""
    fields = decode_body(message, _MESSAGE)
    if fields.pop("type", None) != _CREATE:
        raise InvalidRequest('type must be "response.create"', param="type")
    if fields.get("stream", _TRUE) != _TRUE:
        raise InvalidRequest("stream must be true or left out over a WebSocket", param="stream")
    if "stream_id" in fields:
        reason = "stream_id is not supported; open a WebSocket for each response that runs at the same time"
        raise InvalidRequest(reason, param="stream_id", code="unsupported_parameter")
    fields["stream"] = _TRUE
    return _encode(fields)
