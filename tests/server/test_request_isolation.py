"""Requests and streams continue while one body is parsed, prepared or abandoned."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from .process import ServerProcess

_STILL_SECONDS = 2.5
_MIB = 1 << 20
_SMALL = [{"role": "user", "content": "hello"}]

BODIES: dict[str, tuple[str, Any]] = {
    "one letter": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a" * _MIB}]}),
    "many empty messages": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": ""}] * 200_000},
    ),
    "many lists": (
        "/v1/chat/completions",
        {"messages": _SMALL, "chat_template_kwargs": {"a": [[]] * 1_000_000}},
    ),
    "many items": ("/v1/responses", {"input": [{"role": "user", "content": "x"}] * 100_000}),
}


class Others:
    """Requests /livez and reads a stream continuously.

    Records the longest wait of each.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._is_over = False
        self.longest_wait = self.longest_gap = 0.0
        self._threads = [threading.Thread(target=work) for work in (self._poll, self._read)]

    @contextmanager
    def watching(self) -> Iterator["Others"]:
        for thread in self._threads:
            thread.start()
        try:
            time.sleep(0.5)
            yield self
        finally:
            self._is_over = True
            for thread in self._threads:
                thread.join()

    def _poll(self) -> None:
        with httpx.Client(base_url=self._url, timeout=60) as client:
            while not self._is_over:
                started = time.monotonic()
                assert client.get("/livez").status_code == 200
                self.longest_wait = max(self.longest_wait, time.monotonic() - started)
                time.sleep(0.01)

    def _read(self) -> None:
        sent = {"model": "tiny", "messages": _SMALL, "stream": True, "max_tokens": 30_000}
        with httpx.stream("POST", f"{self._url}/v1/chat/completions", json=sent, timeout=60) as answer:
            last = None
            for _ in answer.iter_lines():
                now = time.monotonic()
                self.longest_gap = max(self.longest_gap, now - (last or now))
                last = now
                if self._is_over:
                    return


def encoded(sent: dict[str, Any]) -> bytes:
    return json.dumps({"model": "tiny", "max_tokens": 1, **sent}).encode()


def abandon(server: ServerProcess, path: str, body: bytes) -> None:
    """Send a request and disconnect."""
    url = httpx.URL(server.url)
    with socket.create_connection((url.host, url.port or 80)) as connection:
        connection.sendall(
            b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(body))
            + body
        )
        time.sleep(0.1)


@pytest.mark.parametrize("name", BODIES)
def test_no_body_delays_other_requests(server: ServerProcess, name: str) -> None:
    path, sent = BODIES[name]
    body = encoded(sent)
    with Others(server.url).watching() as others:
        answer = httpx.post(f"{server.url}{path}", content=body, timeout=120)
        abandon(server, path, body)

    assert answer.status_code == 400
    assert answer.json()["error"]["message"]
    # Prepared in the event loop, it would hold the others for most of its own time, on any machine.
    bound = max(_STILL_SECONDS, answer.elapsed.total_seconds() / 2)
    assert others.longest_wait < bound
    assert others.longest_gap < bound
