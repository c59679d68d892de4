"""Unfinished uploads have bounded memory, and others are served beside them."""

import json
import selectors
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
import pytest

from .hosted import HostedServer, hosting
from .process import ServerProcess, serving, wait_for

UPLOADER, OTHER = "sk-uploader", "sk-other"
NUM_UPLOADS, NUM_BYTES = 16, 30_000_000
PIECE = b"x" * 65536
HEADS = {
    "length": f"content-type: application/json\r\ncontent-length: {NUM_BYTES}\r\n\r\n",
    "chunked": "content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
    "expected": f"expect: 100-continue\r\ncontent-length: {NUM_BYTES}\r\n\r\n",
    "form": f"content-type: multipart/form-data; boundary=b\r\ncontent-length: {NUM_BYTES}\r\n\r\n",
}


@pytest.fixture(scope="module")
def server(endless_model: Path) -> Iterator[HostedServer]:
    """A server with two keys."""
    with hosting(endless_model, "--api-key", UPLOADER, "--api-key", OTHER) as running:
        yield running


@pytest.fixture(scope="module")
def open_server(endless_model: Path) -> Iterator[ServerProcess]:
    """A server without keys: every connection is a caller."""
    with serving(endless_model) as running:
        yield running


def resident_bytes(server: ServerProcess) -> int:
    """Memory of the server's first process."""
    shown = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(server.process.pid)], capture_output=True, check=True
    )
    return int(shown.stdout) * 1024


class Uploads:
    """Bodies without their last bytes, sent as the server takes them."""

    def __init__(self, server: ServerProcess | HostedServer, kind: str) -> None:
        self.answers: list[bytes] = []
        self._selector = selectors.DefaultSelector()
        address = urlsplit(server.url)
        path = "/v1/audio/transcriptions" if kind == "form" else "/v1/chat/completions"
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {UPLOADER}\r\n{HEADS[kind]}"
        self._piece = b"%x\r\n%b\r\n" % (len(PIECE), PIECE) if kind == "chunked" else PIECE
        for _ in range(NUM_UPLOADS):
            connection = socket.create_connection((address.hostname, address.port))
            connection.sendall(head.encode())
            connection.setblocking(False)
            events = selectors.EVENT_READ | selectors.EVENT_WRITE
            self._selector.register(connection, events, [b"", NUM_BYTES // len(PIECE)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for key in tuple(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]

    def send_until_answered(self) -> None:
        """Send what the server takes until one upload has its answer."""
        while not self.answers:
            for key, events in self._selector.select(timeout=60):
                if events & selectors.EVENT_READ:
                    self._receive(key)
                elif events & selectors.EVENT_WRITE:
                    self._send(key)

    def _receive(self, key: selectors.SelectorKey) -> None:
        connection: Any = key.fileobj
        try:
            received = connection.recv(1 << 16)
        except ConnectionError:
            received = b""
        if received.startswith(b"HTTP/1.1 100"):
            return
        self.answers.append(received)
        self._selector.unregister(connection)
        connection.close()

    def _send(self, key: selectors.SelectorKey) -> None:
        connection: Any = key.fileobj
        rest, num_left = key.data
        if not rest and not num_left:
            self._selector.modify(connection, selectors.EVENT_READ)
            return
        if not rest:
            rest, num_left = self._piece, num_left - 1
        try:
            key.data[:] = rest[connection.send(rest) :], num_left
        except OSError:
            self._selector.modify(connection, selectors.EVENT_READ)


def status_of_others(server: ServerProcess | HostedServer, num_bytes: int) -> int:
    """Status of another caller with a body of this size."""
    asked = {"model": "tiny", "max_tokens": 1, "messages": [{"role": "user", "content": "hello"}]}
    headers = {"authorization": f"Bearer {OTHER}"}
    content = json.dumps(asked).encode().ljust(num_bytes)
    return httpx.post(
        f"{server.url}/v1/chat/completions", content=content, headers=headers, timeout=60
    ).status_code


@pytest.mark.parametrize("kind", HEADS)
def test_unfinished_uploads_have_bounded_memory_and_an_end(open_server: ServerProcess, kind: str) -> None:
    assert status_of_others(open_server, 0) == 200
    before = resident_bytes(open_server)
    with Uploads(open_server, kind) as uploads:
        uploads.send_until_answered()
        grown = resident_bytes(open_server) - before
        assert [status_of_others(open_server, size) for size in (0, 300_000)] == [200, 200]

    assert grown < 4 * NUM_BYTES
    assert uploads.answers[0].startswith(b"HTTP/1.1 408")
    assert b"less than 65.54 kB in 2 seconds while other bodies waited" in uploads.answers[0]
    wait_for(lambda: resident_bytes(open_server) - before < NUM_BYTES / 2, seconds=30)


def test_large_body_of_another_caller_overtakes_those_of_one_caller(server: HostedServer) -> None:
    with Uploads(server, "length") as uploads:
        uploads.send_until_answered()
        assert status_of_others(server, NUM_BYTES) == 200
        assert len(uploads.answers) < NUM_UPLOADS
