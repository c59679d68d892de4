"""One open WebSocket: its messages, its requests, and its end.

Event-loop thread only.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from mlxctl.ir.errors import InvalidRequest, MlxctlError, QueueFull, describe_bytes
from mlxctl.server.http.disconnect import Application, Receive, Scope, Send
from mlxctl.server.http.incoming_message import FULL, POLICY_VIOLATION, IncomingMessage
from mlxctl.server.http.socket_exchange import HttpExchange
from mlxctl.server.middleware.body_memory import BodyAccount

# As at OpenAI: https://developers.openai.com/api/docs/guides/websocket-mode
MAX_SECONDS = 3600.0
# Headers of the handshake that do not belong to requests made for the WebSocket.
_HANDSHAKE_HEADERS = frozenset(
    {b"connection", b"content-length", b"content-type", b"transfer-encoding", b"upgrade", b"x-request-id"}
)
_UNAUTHORIZED = 401
_NORMAL_CLOSURE, _GOING_AWAY, _NO_STATUS, _TOO_BIG = 1000, 1001, 1005, 1009
_KEY_ENDED = POLICY_VIOLATION, "the API key is no longer valid"
_TOO_BIG_REASON = "a message may have 16 MB in one frame; send a larger one in several frames, or by POST"
_TOO_SLOW_REASON = "the messages of the server are not read"
# A client that reads nothing for so long has left.
_SEND_SECONDS = 60.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketLimits:
    """What a WebSocket may take.

    It is open for `max_seconds`, and without a message for `idle_seconds`, after which another may be opened.
    Messages that wait are `max_messages` of together `max_bytes`; with `waits` the client sends further ones
    later, else they end the connection.
    """

    max_bytes: int
    max_seconds: float = MAX_SECONDS
    idle_seconds: float = 300.0
    max_messages: int = 4
    waits: bool = False


class WebSocket:
    """An accepted WebSocket.

    `scope` is that of the requests made for it. `account` counts what it holds. `is_over` is set when the
    client has left or may get no more. `render` makes the message of an error.
    """

    def __init__(
        self,
        application: Application,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        account: BodyAccount,
        message_seconds: float,
        limits: SocketLimits,
        render: Callable[[MlxctlError], bytes],
    ) -> None:
        headers = [(name, value) for name, value in scope["headers"] if name not in _HANDSHAKE_HEADERS]
        self.scope = {**scope, "headers": headers}
        self.account = account
        self.is_over = asyncio.Event()
        self._application = application
        self._receive, self._send = receive, send
        self._limits = limits
        self._render = render
        self._loop = asyncio.get_running_loop()
        self._ends_at = self._loop.time() + limits.max_seconds
        self._messages: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._num_open, self._num_open_bytes = 0, 0
        self._has_room = asyncio.Event()
        # The code and the reason with which the server closes it, None if the client closed it.
        self._close_frame: tuple[int, str] | None = (_GOING_AWAY, "the server stops")
        self._sending = asyncio.Lock()
        self._incoming = IncomingMessage(account, scope, end=self._end, seconds=message_seconds)
        self._reader = asyncio.create_task(self._read(), name="read-websocket")

    async def next(self) -> bytes | None:
        """Return the next message, None at the end.

        The one before it is done with.
        """
        end = min(self._ends_at, self._loop.time() + self._limits.idle_seconds)
        try:
            async with asyncio.timeout_at(end):
                message = await self._messages.get()
        except TimeoutError:
            await self._end_by_time()
            return None
        if message is not None:
            self.account.remove(len(message))
        return message

    def done(self, message: bytes) -> None:
        """A message no longer waits."""
        self._num_open -= 1
        self._num_open_bytes -= len(message)
        self._has_room.set()

    async def post(
        self, exchange: HttpExchange, *, path: str = "", content_type: str = "application/json"
    ) -> None:
        """Send a request through the whole application.

        It goes to `path`, else to that of the WebSocket.

        Its limits, logs and rights are those of any POST. An invalid key ends the WebSocket.
        """
        headers = [
            *self.scope["headers"],
            (b"content-type", content_type.encode()),
            (b"content-length", str(exchange.num_bytes).encode()),
        ]
        scope = {**self.scope, "method": "POST", "headers": headers}
        if path:
            scope |= {"path": path, "raw_path": path.encode(), "query_string": b""}
        # `gather` makes it a task, which the application cancels when the client leaves.
        (failure,) = await asyncio.gather(
            self._application(scope, exchange.receive, exchange.send), return_exceptions=True
        )
        if isinstance(failure, Exception):
            _log.warning("a request of a WebSocket ended early: %r", failure)
        if exchange.status == _UNAUTHORIZED:
            # A token whose time is over, say.
            self.revoke()

    async def send_text(self, text: bytes) -> None:
        """Send a message, unless the WebSocket has ended."""
        if self.is_over.is_set():
            return
        timer = self._loop.call_later(_SEND_SECONDS, self._end, POLICY_VIOLATION, _TOO_SLOW_REASON)
        try:
            async with self._sending:
                await self._send({"type": "websocket.send", "text": text.decode()})
        finally:
            timer.cancel()

    async def send_error(self, error: MlxctlError) -> None:
        """Send the message of an error."""
        await self.send_text(self._render(error))

    def close(self) -> None:
        """Close the WebSocket after the waiting messages; the server stops."""
        self._messages.put_nowait(None)

    def revoke(self) -> None:
        """Close the WebSocket: the key of its caller is no longer valid."""
        self._end(*_KEY_ENDED)

    async def finish(self) -> None:
        """Stop reading, and send the close frame."""
        self._reader.cancel()
        self._incoming.close()
        # Granian does not close it while a task waits for a message.
        await asyncio.wait({self._reader})
        if self._close_frame is not None:
            code, reason = self._close_frame
            await self._send({"type": "websocket.close", "code": code, "reason": reason})

    async def _end_by_time(self) -> None:
        is_late = self._loop.time() >= self._ends_at
        limit = self._limits.max_seconds if is_late else self._limits.idle_seconds
        state = "open" if is_late else "without a message"
        reason = f"a WebSocket may be {state} for {limit / 60:g} minutes; open another one"
        await self.send_error(InvalidRequest(reason, code="websocket_connection_limit_reached"))
        self._close_frame = _NORMAL_CLOSURE, reason

    def _end(self, code: int, reason: str) -> None:
        """Close the WebSocket without the answers that it waits for."""
        if self.is_over.is_set():
            return
        self._close_frame = code, reason
        self._reader.cancel()
        self.is_over.set()
        while not self._messages.empty():
            self._messages.get_nowait()
        self._messages.put_nowait(None)

    async def _read(self) -> None:
        """Queue messages until the client leaves or sends too many."""
        while (event := await self._receive())["type"] == "websocket.receive":
            message = event.get("bytes") or (event.get("text") or "").encode()
            self._incoming.has_come()
            if not await self._may_wait(len(message)):
                break
            try:
                self.account.add(len(message))
            except QueueFull as error:
                await self.send_error(error)
                self._end(*FULL)
                return
            self._num_open += 1
            self._num_open_bytes += len(message)
            self._messages.put_nowait(message)
        else:
            # Granian reports a message that it does not take like a client that left without a word.
            is_unread = event.get("code") == _NO_STATUS
            self._close_frame = (_TOO_BIG, _TOO_BIG_REASON) if is_unread else None
        self.is_over.set()
        self._messages.put_nowait(None)

    async def _may_wait(self, num_bytes: int) -> bool:
        """Whether another message may wait.

        Waits for room first where the limits say so.
        """
        limits = self._limits
        while self._num_open and (
            self._num_open > limits.max_messages or self._num_open_bytes + num_bytes > limits.max_bytes
        ):
            if not limits.waits:
                limit = f"{limits.max_messages} messages or {describe_bytes(limits.max_bytes)}"
                self._close_frame = POLICY_VIOLATION, f"more than {limit} wait for a response"
                return False
            self._has_room.clear()
            await self._has_room.wait()
        return True
