"""/v1/responses over WebSocket: `response.create` messages, answered one after the other.

Each message goes through the whole application as its POST would: authentication, limits, logs and metrics
are the same. The messages are those of OpenAI's WebSocket mode and of Open Responses' WebSocket transport.
Event-loop thread only.
"""

import msgspec
from falcon.asgi import Request, Response

from mlxctl.ir.errors import InvalidRequest, MethodNotAllowed, MlxctlError
from mlxctl.protocols import openai_error
from mlxctl.protocols.decoding import decode_body
from mlxctl.server.http.socket_exchange import HttpExchange, error_message
from mlxctl.server.http.web_socket import SocketLimits, WebSocket
from mlxctl.server.http.web_sockets import HANDSHAKE, Handshake, SocketService
from mlxctl.server.resources.generation.conversations import UNSTORED_RESPONSE, UnstoredResponse
from mlxctl.server.resources.generation.generation import GenerationResource

_SWITCHING_PROTOCOLS = 101
_CREATE, _TRUE = msgspec.Raw(b'"response.create"'), msgspec.Raw(b"true")

_MESSAGE = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode = msgspec.json.Encoder().encode


class ResponsesSocketResource:
    """/v1/responses: POST creates a response, GET opens a WebSocket."""

    def __init__(self, responses: GenerationResource, limits: SocketLimits) -> None:
        self.on_post = responses.on_post
        self.socket = responses_socket(limits)

    async def on_get(self, request: Request, response: Response) -> None:
        """Accept a WebSocket.

        Raises CapacityError, and MethodNotAllowed for a plain GET.
        """
        handshake: Handshake | None = request.scope.get(HANDSHAKE)
        if handshake is None:
            raise MethodNotAllowed(request.method, ("POST",))
        handshake.accept(request)
        response.status = _SWITCHING_PROTOCOLS


def responses_socket(limits: SocketLimits) -> SocketService:
    """Return what answers `response.create` messages.

    The limits hold for the conversation that a connection keeps, too.
    """

    async def serve(socket: WebSocket, _: Handshake) -> None:
        unstored = socket.scope[UNSTORED_RESPONSE] = UnstoredResponse(socket.account, limits.max_bytes)
        try:
            while (message := await socket.next()) is not None:
                await _answer(socket, message)
                socket.done(message)
        finally:
            unstored.drop()

    return SocketService(serve=serve, limits=limits, render=_render)


async def _answer(socket: WebSocket, message: bytes) -> None:
    try:
        body = _request_body(message)
    except InvalidRequest as error:
        await socket.send_error(error)
        return
    await socket.post(HttpExchange(body, send_text=socket.send_text, is_over=socket.is_over))


def _render(error: MlxctlError) -> bytes:
    answer = openai_error(error)
    return error_message(answer.status, answer.body, answer.headers.get("Retry-After"))


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
