"""WebSockets are bounded: their number, messages, conversations and time."""

import base64
import itertools
import json
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from mlxctl.server.http.upload_turns import UploadTurns
from mlxctl.server.middleware.body_memory import BodyAccount, BodyMemory
from mlxctl.server.resources.generation.conversations import UnstoredResponse

from .process import ServerProcess, serving, wait_for

MIB = 1 << 20
ADMIN = "sk-admin"
CREATE: dict[str, Any] = {"type": "response.create", "model": "tiny", "temperature": 0, "store": False}
ENDS = ("response.completed", "response.incomplete", "error")


@pytest.fixture(scope="module")
def server(endless_model: Path) -> Iterator[ServerProcess]:
    """A server with an admin key and little memory for bodies."""
    limits = {"MLXCTL_SERVER_MAX_BODIES_BYTES": str(8 * MIB), "MLXCTL_SERVER_MAX_BODY_BYTES": str(4 * MIB)}
    with serving(endless_model, "--admin-key", ADMIN, **limits) as running:
        yield running


@pytest.fixture
def key(server: ServerProcess) -> dict[str, str]:
    """A new key that may generate: `id` and `key`."""
    added = httpx.post(
        f"{server.url}/admin/keys",
        json={"name": uuid4().hex, "scopes": ["generate"]},
        headers=bearer(ADMIN),
    )
    made: dict[str, str] = added.json()
    return made


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def opened(server: ServerProcess, key: str) -> ClientConnection:
    url = f"{server.url.replace('http', 'ws', 1)}/v1/responses"
    return connect(url, additional_headers=bearer(key), max_size=None)


def ask(connection: ClientConnection, **fields: Any) -> dict[str, Any]:
    """Send one message; return the event that ends its response."""
    connection.send(json.dumps({**CREATE, "max_output_tokens": 1, **fields}))
    events = (json.loads(connection.recv(timeout=60)) for _ in itertools.count())
    return next(event for event in events if event["type"] in ENDS)


def test_caller_has_few_connections_and_others_are_served(server: ServerProcess, key: dict[str, str]) -> None:
    with ExitStack() as stack:
        for _ in range(32):
            stack.enter_context(opened(server, key["key"]))
        with pytest.raises(InvalidStatus) as refused:
            opened(server, key["key"])
        with opened(server, ADMIN) as other:
            answer = ask(other, input="Hi")
    response = refused.value.response
    assert (response.status_code, int(response.headers["retry-after"])) == (503, 30)
    assert "a caller may have 32 WebSockets" in json.loads(response.body)["error"]["message"]
    assert answer["type"] == "response.incomplete"
    wait_for(lambda: may_open(server, key["key"]), seconds=20)


def may_open(server: ServerProcess, key: str) -> bool:
    try:
        with opened(server, key):
            return True
    except InvalidStatus:
        return False


def test_connections_are_an_eighth_of_the_files(endless_model: Path) -> None:
    # Many services start programs with a low limit.
    limited = ["/bin/sh", "-c", 'ulimit -n 160; exec "$@"', "sh", sys.executable, "-m", "mlxctl"]
    with (
        subprocess.Popen(
            [*limited, "serve", "--port", "0", "--model", str(endless_model)],
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
        ExitStack() as stack,
    ):
        stack.callback(process.kill)
        assert process.stdout is not None
        address = next(line for line in process.stdout if "http://" in line).split("http://")[1].split()[0]
        wait_for(lambda: httpx.get(f"http://{address}/readyz").status_code == 200, seconds=60)
        statuses = [handshake(address, stack) for _ in range(40)]
        livez = httpx.get(f"http://{address}/livez", timeout=10)
    assert statuses == [101] * 20 + [503] * 20
    assert livez.status_code == 200


def handshake(address: str, stack: ExitStack) -> int:
    """Ask for a WebSocket that stays open; return the status."""
    return int(raw(urlsplit(f"http://{address}"), stack)[1].split()[1])


def raw(url: Any, stack: ExitStack, key: str = "") -> tuple[socket.socket, bytes]:
    """A connection that asked for a WebSocket, and the answer."""
    connection = stack.enter_context(socket.create_connection((url.hostname, url.port), timeout=60))
    connection.sendall(
        b"GET /v1/responses HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        b"sec-websocket-version: 13\r\nsec-websocket-key: "
        + base64.b64encode(bytes(16))
        + f"\r\nauthorization: Bearer {key}\r\n\r\n".encode()
    )
    return connection, connection.recv(4096)


def test_unfinished_messages_have_bounded_memory(server: ServerProcess, key: dict[str, str]) -> None:
    before = resident_bytes(server)
    with ExitStack() as stack:
        connections = [raw(urlsplit(server.url), stack, key["key"])[0] for _ in range(8)]
        for connection in connections:
            try:
                for number in range(30):
                    opcode = 1 if number == 0 else 0
                    head = bytes([opcode, 0x80 | 127]) + struct.pack(">Q", MIB) + bytes(4)
                    connection.sendall(head + b"x" * MIB)
            except ConnectionError:
                continue
        grown = resident_bytes(server) - before
        assert httpx.get(f"{server.url}/livez").status_code == 200
        with opened(server, ADMIN) as other:
            assert ask(other, input="Hi")["type"] == "response.incomplete"
    assert grown < 100 * MIB


def resident_bytes(server: ServerProcess) -> int:
    """Memory of the server's first process."""
    shown = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(server.process.pid)], capture_output=True, check=True
    )
    return int(shown.stdout) * 1024


def test_waiting_messages_count_as_bodies(server: ServerProcess, key: dict[str, str]) -> None:
    long = json.dumps({**CREATE, "input": "Hi", "max_output_tokens": 20_000})
    with ExitStack() as stack:
        connections = [stack.enter_context(opened(server, key["key"])) for _ in range(4)]
        for connection in connections:
            connection.send(long)
            connection.send(long.ljust(3 * MIB))
        with pytest.raises(ConnectionClosed, match=r"1013.*bodies of open requests"):
            receive_in_turn(connections)


def receive_in_turn(connections: Sequence[ClientConnection]) -> None:
    """Receive until a connection ends."""
    while True:
        for connection in connections:
            connection.recv(timeout=60)


def test_conversation_that_does_not_fit_is_dropped() -> None:
    turns = UploadTurns(64, max_wait_seconds=1)
    memory = BodyMemory(100)
    first, second = (UnstoredResponse(BodyAccount(memory, turns, "a"), 1000) for _ in range(2))
    record: Any = SimpleNamespace(id="r", input=(SimpleNamespace(body=bytes(60)),), output=())
    first.keep(record, ())
    second.keep(record, ())

    assert memory.num_bytes == 60
    assert second.take("r") is None
    assert first.take("r") == record.input
    assert memory.num_bytes == 0


def test_revoked_key_closes_its_connections(server: ServerProcess, key: dict[str, str]) -> None:
    with opened(server, key["key"]) as idle, opened(server, key["key"]) as running:
        running.send(json.dumps({**CREATE, "input": "Hi", "max_output_tokens": 20_000}))
        running.recv(timeout=60)
        httpx.delete(f"{server.url}/admin/keys/{key['id']}", headers=bearer(ADMIN))
        for connection in (idle, running):
            with pytest.raises(ConnectionClosed, match=r"1008.*no longer valid"):
                receive_in_turn([connection])
