"""Malformed or unfinished HTTP is rejected in time.

Without server errors or harm to others.
"""

import json
import selectors
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mlxctl.server.routes import all_routes

from .process import ServerProcess, wait_for

BODY_SECONDS, HEADER_BYTES = 0.5, 9000
METHODS = ("POST", "PUT", "PATCH", "DELETE", "GET")


@pytest.fixture(scope="module")
def server(endless_model: Path) -> Iterator[ServerProcess]:
    """A server with a short body timeout.

    Its log has no unexpected error afterwards.
    """
    limits = {
        "MLXCTL_SERVER_BODY_TIMEOUT_SECONDS": str(BODY_SECONDS),
        "MLXCTL_SERVER_MAX_HEADER_BYTES": str(HEADER_BYTES),
    }
    server = ServerProcess("--model", str(endless_model), "--name", "tiny", environment=limits)
    try:
        server.wait_ready()
        yield server
        assert server.stop() == 0
        assert server.process.stderr is not None
        log = server.process.stderr.read()
        assert "Traceback" not in log, log
        assert "unexpectedly" not in log, log
    finally:
        server.kill()


def connect(server: ServerProcess) -> socket.socket:
    address = urlsplit(server.url)
    return socket.create_connection((address.hostname, address.port), timeout=60)


def send(server: ServerProcess, sent: bytes) -> bytes:
    """Send bytes that close the connection and return the answer."""
    with connect(server) as connection:
        connection.sendall(sent)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def send_all(server: ServerProcess, sent: list[bytes], *, silent_seconds: float) -> dict[bytes, bytes]:
    """Send each over its own connection at once; return the answers.

    Ends when no further one has come for `silent_seconds`: some of what is sent is no whole request.
    """
    answers: dict[bytes, bytes] = {}
    waiting = selectors.DefaultSelector()
    for piece in sent:
        connection = connect(server)
        connection.sendall(piece)
        waiting.register(connection, selectors.EVENT_READ, piece)
    while waiting.get_map() and (ready := waiting.select(timeout=silent_seconds if answers else 60)):
        for key, _ in ready:
            assert isinstance(key.fileobj, socket.socket)
            with key.fileobj as connection:
                waiting.unregister(connection)
                try:
                    answers[key.data] = connection.recv(1 << 16)
                except ConnectionError:
                    answers[key.data] = b""
    for key in list(waiting.get_map().values()):
        assert isinstance(key.fileobj, socket.socket)
        key.fileobj.close()
    return answers


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def error_of(answer: bytes) -> dict[str, object]:
    error: dict[str, object] = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    return error


def test_every_route_times_out_slow_bodies(server: ServerProcess) -> None:
    """Send the start of a body to each route's methods, concurrently."""
    sent: dict[bytes, str] = {}
    for route in (route.path for route in all_routes()):
        path = route.replace("{response_id}", "x").replace("{agent_id}", "x").replace("{name:path}", "x")
        kind = "multipart/form-data; boundary=b" if "audio" in route else "application/json"
        for method in METHODS:
            head = (
                f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\ncontent-length: "
                "100\r\n\r\n{"
            )
            sent[head.encode()] = f"{method} {route}"
    answers = send_all(server, [*sent], silent_seconds=30)
    assert answers.keys() == sent.keys()
    statuses = {sent[head]: status_of(answer) for head, answer in answers.items()}
    assert {route.split(" ")[1] for route, status in statuses.items() if status == 408} >= {
        "/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens", "/v1/embeddings", "/v1/agents",
        "/cache/explain", "/cache/pin", "/models/load", "/v1/audio/transcriptions",
        "/v1/agents/{agent_id}/generate", "/v1/responses",
    }  # fmt: skip
    assert not [route for route, status in statuses.items() if status >= 500]


@pytest.mark.parametrize(
    ("path", "kind"), [("/v1/chat/completions", "timeout_error"), ("/v1/messages", "timeout_error")]
)
def test_trickling_body_times_out(server: ServerProcess, path: str, kind: str) -> None:
    with connect(server) as connection:
        connection.sendall(
            f"POST {path} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        )
        connection.settimeout(BODY_SECONDS / 10)
        answer = b""

        def has_answered() -> bool:
            nonlocal answer
            # The server may have closed its end already.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(b"1\r\n \r\n")
            with suppress(TimeoutError):
                answer = connection.recv(1 << 16)
            return bool(answer)

        wait_for(has_answered, seconds=30)
    assert (status_of(answer), error_of(answer)["type"]) == (408, kind)


@pytest.mark.parametrize(
    "host", ["localhost:", "localhost:abc", "localhost:99999999", "::1", "[::1", "[::1]x", "a b", "a,b", "é"]
)
def test_malformed_host_returns_400_in_the_routes_shape(server: ServerProcess, host: str) -> None:
    answer = send(
        server, f"GET /livez HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode("latin-1")
    )
    assert (status_of(answer), error_of(answer)["code"]) == (400, "invalid_host")


@pytest.mark.parametrize(
    "host", ["LOCALHOST.", "[::1]", "[0:0:0:0:0:0:0:1]:80", "127.0.0.1.", "127.8.9.1:65535"]
)
def test_loopback_hosts_are_accepted_in_any_spelling(server: ServerProcess, host: str) -> None:
    assert (
        status_of(send(server, f"GET /livez HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode()))
        == 200
    )


def test_two_host_headers_are_refused(server: ServerProcess) -> None:
    answer = send(
        server, b"GET /livez HTTP/1.1\r\nhost: evil.example\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    )
    assert error_of(answer)["code"] == "invalid_host"


@pytest.mark.parametrize("path", ["/livez", "/v1/models"])
def test_missing_host_header_returns_400(server: ServerProcess, path: str) -> None:
    answer = send(server, f"GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"invalid_host" in answer


def test_http_1_0_client_is_answered(server: ServerProcess) -> None:
    assert status_of(send(server, b"GET /livez HTTP/1.0\r\n\r\n")) == 200


@pytest.mark.parametrize(
    "chunks", [b"zz\r\nabc\r\n0\r\n\r\n", b"2\r\n{}\r\nqq\r\n", b"fffffffffffffffff\r\n{", b"5\r\n{}"]
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/agents", "/models/load"])
def test_truncated_body_returns_400(server: ServerProcess, path: str, chunks: bytes) -> None:
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    with connect(server) as connection:
        connection.sendall(head.encode() + chunks)
        answer = connection.recv(1 << 16)
    wanted = {400, 408} if chunks == b"5\r\n{}" else {400}
    assert status_of(answer) in wanted
    assert "body" in str(error_of(answer)["message"])


@pytest.mark.parametrize("chunks", [b"zz\r\nabc\r\n0\r\n\r\n", b"2\r\n{}\r\nqq\r\n"])
@pytest.mark.parametrize(
    "start",
    [
        "GET /livez",
        "GET /v1/models",
        "GET /cache/explain",
        "HEAD /livez",
        "DELETE /v1/responses/x",
        "PUT /livez",
        "GET /nowhere",
        "POST /v1/nowhere",
    ],
)
def test_broken_body_returns_400_where_none_is_used(server: ServerProcess, start: str, chunks: bytes) -> None:
    head = f"{start} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    assert status_of(send(server, head.encode() + chunks)) == 400


def test_only_an_unread_body_ends_the_connection(server: ServerProcess) -> None:
    url, body = f"{server.url}/v1/chat/completions", {"model": "tiny", "messages": [], "max_tokens": 1}
    unread = httpx.post(url, content=bytes(3_000_000), headers={"content-encoding": "gzip"})
    read = httpx.post(url, json=body)
    assert (unread.status_code, unread.headers.get("connection")) == (415, "close")
    assert (read.status_code, read.headers.get("connection")) == (400, None)


def test_asterisk_as_target_returns_404(server: ServerProcess) -> None:
    answer = send(server, b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    assert (status_of(answer), error_of(answer)["code"]) == (404, "not_found")


def test_unused_body_is_dropped_up_to_64_kilobytes(server: ServerProcess) -> None:
    for num_bytes, status in ((0, 200), (2, 200), (1 << 16, 200), ((1 << 16) + 1, 413)):
        head = f"GET /livez HTTP/1.1\r\nhost: localhost\r\ncontent-length: {num_bytes}\r\n"
        assert status_of(send(server, f"{head}connection: close\r\n\r\n{'x' * num_bytes}".encode())) == status


@pytest.mark.parametrize("num_bytes", [HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 1, 12_000])
@pytest.mark.parametrize("place", ["header", "query"])
def test_request_head_size_is_limited(server: ServerProcess, place: str, num_bytes: int) -> None:
    head = "GET /livez{} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{}\r\n"
    spare = num_bytes - len(
        head.format("?" if place == "query" else "", "x: \r\n" if place == "header" else "")
    )
    filled = (
        head.format("", f"x: {'a' * spare}\r\n") if place == "header" else head.format(f"?{'a' * spare}", "")
    )
    assert len(filled) == num_bytes
    answer = send(server, filled.encode())
    assert status_of(answer) == (431 if num_bytes > HEADER_BYTES else 200)
    assert num_bytes <= HEADER_BYTES or error_of(answer)["code"] == "headers_too_large"


_LINES = st.sampled_from(
    [
        b"host: localhost", b"host: localhost:", b"host:", b"host: [::1", b"content-length: 5",
        b"content-length: -1", b"content-length: 99999999999999999999", b"transfer-encoding: chunked",
        b"transfer-encoding: gzip, chunked", b"expect: 100-continue", b"connection: upgrade", b"upgrade: h2c",
        b"content-type: multipart/form-data; boundary=\xff", b"content-type: \xff", b"accept: ;;;",
        b"authorization: \xff", b"x-api-key: \x80", b"origin: \xff", b"cookie: \xff=;",
        b"x-request-id: \xe2\x80\xa8", b"content-encoding: \xff", b" folded", b"x-forwarded-host: [",
        b"forwarded: ;=", b"range: bytes=x", b"anthropic-version: \xff", b"no colon", b": x",
    ]
)  # fmt: skip
_PATHS = [route.path.encode() for route in all_routes()]
_STARTS = st.builds(
    lambda method, path, version: method + b" " + path + b" " + version,
    st.sampled_from(
        [
            b"GET",
            b"POST",
            b"PATCH",
            b"DELETE",
            b"OPTIONS",
            b"CONNECT",
            b"TRACE",
            b"WEBSOCKET",
            b"PRI",
            b"\xff",
        ]
    ),
    st.sampled_from([*_PATHS, b"*", b"//", b"/%", b"/%ff%00", b"http://[/", b"/v1/agents?limit=%ff&&="])
    | st.binary(max_size=20),
    st.sampled_from([b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/9", b""]),
)
_BODIES = st.sampled_from(
    [b"", b"{}", b"zz\r\n{}\r\n0\r\n\r\n", b"2\r\n{}\r\n0\r\n\r\n", b"-1\r\n", b"2;x=\xff\r\n{}\r\n0\r\n\xff"]
)


@st.composite
def broken_requests(draw: st.DrawFn) -> bytes:
    """Draw bytes that resemble a request."""
    lines = draw(st.lists(_LINES | st.binary(max_size=30), max_size=5))
    head = b"\r\n".join([draw(_STARTS), *([b"host: localhost"] * draw(st.booleans())), *lines])
    return head + b"\r\n\r\n" + draw(_BODIES | st.binary(max_size=60))


@settings(max_examples=5, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(batch=st.lists(broken_requests(), min_size=60, max_size=60, unique=True))
def test_random_bytes_cause_no_server_error(server: ServerProcess, batch: list[bytes]) -> None:
    answers = send_all(server, batch, silent_seconds=2 * BODY_SECONDS)
    assert not {
        sent: answer for sent, answer in answers.items() if answer and not 100 <= status_of(answer) < 500
    }
    assert any(answer and b'"error"' in answer for answer in answers.values())


def test_server_still_answers_after_broken_requests(server: ServerProcess) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
    assert httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=30).status_code == 200
    wait_for(lambda: server.health()["open_requests"] == 0, seconds=20)
