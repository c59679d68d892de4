"""/v1/realtime: a WebSocket for spoken conversations, or for transcription alone.

A session makes requests to this server, each with its key, limits, guardrails and audit record: one for
every turn to transcribe, every answer to generate, and the sentences to speak. Event-loop thread only.
"""

from http import HTTPStatus
from urllib.parse import parse_qs

from falcon.asgi import Request, Response

from mlxctl.inference import InferenceService
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.openai.realtime.events import error_event
from mlxctl.server.http.web_socket import SocketLimits, WebSocket
from mlxctl.server.http.web_sockets import HANDSHAKE, Handshake, SocketService
from mlxctl.server.policy.caller import call_of
from mlxctl.server.resources.realtime.session import RealtimeSession

# Between turns a client may be silent; one with turn detection sends silence.
_IDLE_SECONDS = 900.0
# Waiting audio is not yet in the session.
_MAX_WAITING_MESSAGES, _MAX_WAITING_BYTES = 64, 4 << 20


class RealtimeResource:
    """Opens WebSockets."""

    def __init__(self, inference: InferenceService, *, max_bytes: int) -> None:
        """`max_bytes` limits the texts of a session."""
        self._inference = inference
        self._max_bytes = max_bytes
        limits = SocketLimits(
            idle_seconds=_IDLE_SECONDS,
            max_messages=_MAX_WAITING_MESSAGES,
            max_bytes=_MAX_WAITING_BYTES,
            waits=True,
        )
        self.socket = SocketService(
            serve=self._serve, limits=limits, render=error_event, subprotocol="realtime"
        )

    async def on_get(self, request: Request, response: Response) -> None:
        """Accept a WebSocket.

        Raises InvalidRequest for a plain GET, UnknownModel, CapacityError.
        """
        handshake: Handshake | None = request.scope.get(HANDSHAKE)
        model, is_transcription = _asked(request.query_string)
        if not is_transcription:
            await self._inference.models.check(model, call_of(request))
        elif model:
            await self._inference.models.find(model, call_of(request), "transcription")
        if handshake is None:
            raise InvalidRequest("/v1/realtime is a WebSocket; open it with ws:// or wss://")
        handshake.accept(request)
        response.status = HTTPStatus.SWITCHING_PROTOCOLS

    async def _serve(self, socket: WebSocket, handshake: Handshake) -> None:
        model, is_transcription = _asked(socket.scope["query_string"].decode())
        models, call = self._inference.models, handshake.call
        session = RealtimeSession(
            socket,
            self._inference,
            call,
            model=model if is_transcription else model or models.default(call.models),
            is_transcription=is_transcription,
            max_bytes=self._max_bytes,
        )
        await session.run()


def _asked(query: str) -> tuple[str, bool]:
    """Return the model of a query, and whether it is for transcription."""
    fields = parse_qs(query)
    return fields.get("model", [""])[-1], fields.get("intent", [""])[-1] == "transcription"
