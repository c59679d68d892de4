"""/v1/responses over WebSocket, with OpenAI's client and with raw messages."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai.resources.responses.responses import ResponsesConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from mlxctl.server.http.disconnect import Event, Receive, Scope, Send
from mlxctl.server.http.open_requests import OpenHttpRequests
from mlxctl.server.http.upload_turns import UploadTurns
from mlxctl.server.http.web_socket import SocketLimits
from mlxctl.server.http.web_sockets import HANDSHAKE, WebSockets
from mlxctl.server.middleware.body_memory import BodyAccount, BodyMemory
from mlxctl.server.resources.generation.responses_socket import responses_socket

from .hosted import HostedServer, hosting
from .process import ServerProcess, serving, wait_for

# OpenAI's client calls `connect` of websockets in a way that is to go.
pytestmark = pytest.mark.filterwarnings("ignore:connect:DeprecationWarning")
CREATE: dict[str, Any] = {
    "type": "response.create",
    "model": "tiny",
    "max_output_tokens": 8,
    "temperature": 0,
}
ENDS = ("response.completed", "response.incomplete", "response.failed", "error")
KEY = {"Authorization": "Bearer sk-socket"}


@pytest.fixture
def connection(openai_client: openai.OpenAI) -> Iterator[ResponsesConnection]:
    with openai_client.responses.connect() as opened:
        yield opened


def raw(server: ServerProcess | HostedServer, **options: Any) -> ClientConnection:
    return connect(f"{server.url.replace('http', 'ws', 1)}/v1/responses", **options)


def answer(connection: ResponsesConnection, **fields: Any) -> Any:
    """Send one message; return the event that ends its response."""
    connection.send({**CREATE, **fields})  # type: ignore[arg-type]
    return next(event for event in connection if event.type in ENDS)


def test_events_equal_those_of_the_http_stream(
    openai_client: openai.OpenAI, connection: ResponsesConnection
) -> None:
    asked = {name: value for name, value in CREATE.items() if name != "type"}
    streamed = list(openai_client.responses.create(**asked, input="Say something.", stream=True))
    connection.response.create(**asked, input="Say something.")
    events = []
    for event in connection:
        events.append(event)
        if event.type in ENDS:
            break
    assert [event.type for event in events] == [event.type for event in streamed]
    assert events[-1].response.output_text == streamed[-1].response.output_text != ""  # type: ignore[union-attr]


def test_unstored_response_is_continued_once(connection: ResponsesConnection) -> None:
    first = answer(connection, input="One", store=False).response
    second = answer(connection, input="Two", store=False, previous_response_id=first.id).response
    again = answer(connection, input="Two", store=False, previous_response_id=first.id)
    assert second.previous_response_id == first.id
    assert second.usage.input_tokens > first.usage.total_tokens
    assert (again.status, again.error.code) == (400, "previous_response_not_found")


def test_failed_continuation_forgets_the_unstored_response(connection: ResponsesConnection) -> None:
    first = answer(connection, input="One", store=False).response
    call = {"type": "function_call_output", "call_id": "call_missing", "output": "3"}
    refused = answer(connection, input=[call], store=False, previous_response_id=first.id)
    again = answer(connection, input="Two", store=False, previous_response_id=first.id)
    assert refused.status == 400
    assert again.error.code == "previous_response_not_found"


def test_unstored_response_is_unknown_to_other_connections(
    openai_client: openai.OpenAI, connection: ResponsesConnection
) -> None:
    first = answer(connection, input="One", store=False).response
    with openai_client.responses.connect() as other:
        assert answer(other, input="Two", previous_response_id=first.id).error.code == (
            "previous_response_not_found"
        )
    with pytest.raises(openai.NotFoundError):
        openai_client.responses.retrieve(first.id)


def test_stored_response_is_continued_by_another_connection(
    openai_client: openai.OpenAI, connection: ResponsesConnection
) -> None:
    first = answer(connection, input="One").response
    with openai_client.responses.connect() as other:
        second = answer(other, input="Two", previous_response_id=first.id).response
    assert second.usage.input_tokens > first.usage.total_tokens


def test_stored_response_continues_unstored_ones(
    openai_client: openai.OpenAI, connection: ResponsesConnection
) -> None:
    first = answer(connection, input="One", store=False).response
    second = answer(connection, input="Two", previous_response_id=first.id).response
    third = openai_client.responses.create(
        model="tiny", max_output_tokens=8, input="Three", previous_response_id=second.id
    )
    assert third.usage is not None
    assert third.usage.input_tokens > second.usage.total_tokens > first.usage.total_tokens


def test_request_without_generation_fills_the_prefix_cache(connection: ResponsesConnection) -> None:
    warm = answer(connection, input="Long instructions. " * 40, store=False, generate=False)
    next_turn = answer(connection, input="Go on.", store=False, previous_response_id=warm.response.id)
    assert warm.type == "response.completed"
    assert (warm.response.output, warm.response.usage.output_tokens) == ([], 0)
    assert next_turn.response.usage.input_tokens_details.cached_tokens >= (
        warm.response.usage.input_tokens - 16
    )


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("no JSON", None),
        ("[]", None),
        ('{"type": "response.cancel"}', "type"),
        (json.dumps({**CREATE, "input": "Hi", "stream": False}), "stream"),
        (json.dumps({**CREATE, "input": "Hi", "stream_id": "a"}), "stream_id"),
        (json.dumps({**CREATE, "input": "Hi", "background": True}), "background"),
        (json.dumps({**CREATE, "input": 3}), "input"),
    ],
)
def test_bad_message_gets_an_error_and_the_next_one_its_response(
    server: ServerProcess, message: str, param: str | None
) -> None:
    with raw(server) as socket:
        socket.send(message)
        refused = json.loads(socket.recv())
        socket.send(json.dumps({**CREATE, "input": "Hi"}))
        begun = json.loads(socket.recv())
    assert (refused["type"], refused["status"], refused["error"]["param"]) == ("error", 400, param)
    assert isinstance(refused["error"]["code"], str)
    assert begun["type"] == "response.created"


def test_messages_are_answered_in_their_order(server: ServerProcess) -> None:
    with raw(server) as socket:
        for number in range(4):
            socket.send(json.dumps({**CREATE, "input": "Hi", "metadata": {"number": str(number)}}))
        events = []
        while sum(event["type"] in ENDS for event in events) < 4:
            events.append(json.loads(socket.recv()))
    shown = [event["response"]["metadata"]["number"] for event in events if "response" in event]
    assert shown == sorted(shown)


def test_too_many_waiting_messages_close_the_connection(server: ServerProcess) -> None:
    def send_eight() -> None:
        for _ in range(8):
            socket.send(json.dumps({**CREATE, "input": "Hi", "max_output_tokens": 20_000}))
        while True:
            socket.recv()

    with raw(server) as socket, pytest.raises(ConnectionClosed, match="more than 4 messages"):
        send_eight()


def test_waiting_messages_have_the_size_of_one_body(endless_model: Path) -> None:
    def send_two(socket: ClientConnection) -> None:
        for _ in range(2):
            socket.send(
                json.dumps(
                    {**CREATE, "input": "Hi", "max_output_tokens": 20_000, "metadata": {"a": "b" * 500}}
                )
            )
        while True:
            socket.recv()

    with (
        hosting(endless_model, MLXCTL_SERVER_MAX_BODY_BYTES="1024") as running,
        raw(running) as socket,
        pytest.raises(ConnectionClosed, match="wait for a response"),
    ):
        send_two(socket)


def test_leaving_client_ends_the_generation(server: ServerProcess) -> None:
    with raw(server) as socket:
        socket.send(json.dumps({**CREATE, "input": "Hi", "max_output_tokens": 20_000}))
        socket.recv()
    wait_for(lambda: httpx.get(f"{server.url}/stats").json()["num_decoding"] == 0, seconds=10)


@pytest.fixture(scope="module")
def protected(endless_model: Path) -> Iterator[HostedServer]:
    with hosting(endless_model, "--api-key", "sk-socket") as running:
        yield running


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({}, 401, "invalid_api_key"),
        ({"Authorization": "Bearer wrong"}, 401, "invalid_api_key"),
        ({**KEY, "Origin": "http://evil.example"}, 400, "origin_not_allowed"),
        ({**KEY, "Host": "evil.example"}, 400, "invalid_host"),
    ],
)
def test_handshake_is_refused_like_a_request(
    protected: HostedServer, headers: dict[str, str], status: int, code: str
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        raw(protected, additional_headers=headers)
    answer = refused.value.response
    assert (answer.status_code, json.loads(answer.body)["error"]["code"]) == (status, code)
    assert "x-request-id" in answer.headers


def test_handshake_at_another_path_is_refused(server: ServerProcess) -> None:
    with pytest.raises(InvalidStatus) as refused:
        connect(f"{server.url.replace('http', 'ws', 1)}/v1/elsewhere")
    assert refused.value.response.status_code == 404


def test_handshake_with_the_key_and_the_own_origin_is_accepted(protected: HostedServer) -> None:
    with raw(protected, additional_headers={**KEY, "Origin": protected.url}) as socket:
        socket.send(json.dumps({**CREATE, "input": "Hi"}))
        assert json.loads(socket.recv())["type"] == "response.created"


def test_plain_get_is_refused(server: ServerProcess) -> None:
    refused = httpx.get(f"{server.url}/v1/responses")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


def test_stopping_server_closes_idle_connections(endless_model: Path) -> None:
    with serving(endless_model) as running, raw(running) as socket:
        assert running.stop() == 0
        with pytest.raises(ConnectionClosed, match="1001"):
            socket.recv()


def events_sent(*received: Event, max_seconds: float, idle_seconds: float = 60) -> list[Event]:
    """Return what the server sends when a client sends these events."""
    sent: list[Event] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        scope[HANDSHAKE].account = BodyAccount(BodyMemory(1), UploadTurns(1, max_wait_seconds=1), "")
        await send({"type": "http.response.start", "status": 101, "headers": []})

    async def open_and_wait() -> None:
        events = iter([{"type": "websocket.connect"}, *received])

        async def receive() -> Event:
            return next(events, None) or await asyncio.get_running_loop().create_future()

        async def send(event: dict[str, Any]) -> None:
            sent.append(event)

        service = responses_socket(
            SocketLimits(max_bytes=1, max_seconds=max_seconds, idle_seconds=idle_seconds)
        )
        socket = WebSockets(application, {"/v1/responses": service}, OpenHttpRequests(), message_seconds=60)
        scope = {"type": "websocket", "path": "/v1/responses", "scheme": "ws", "headers": []}
        await socket(scope, receive, send)

    asyncio.run(open_and_wait())
    return sent


@pytest.mark.parametrize("limits", [{"max_seconds": 0.01}, {"max_seconds": 60, "idle_seconds": 0.01}])
def test_connection_ends_after_its_time(limits: dict[str, float]) -> None:
    sent = events_sent(**limits)
    assert [event["type"] for event in sent] == ["websocket.accept", "websocket.send", "websocket.close"]
    assert json.loads(sent[1]["text"])["error"]["code"] == "websocket_connection_limit_reached"


def test_too_large_message_closes_the_connection_with_the_reason() -> None:
    # What Granian reports; that the client still reads the reason is a matter of time.
    _, closed = events_sent({"type": "websocket.disconnect", "code": 1005}, max_seconds=60)
    assert (closed["code"], "16 MB in one frame" in closed["reason"]) == (1009, True)
    assert len(closed["reason"].encode()) < 124


def test_leaving_client_gets_no_close_frame() -> None:
    sent = events_sent({"type": "websocket.disconnect", "code": 1000}, max_seconds=60)
    assert [event["type"] for event in sent] == ["websocket.accept"]
