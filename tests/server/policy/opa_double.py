"""A server in the shape of OPA's REST API."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.http_double import running


class OpaDouble(ThreadingHTTPServer):
    """Answers `result` to every document, and keeps the inputs of requests.

    `body` replaces the answer; with `drips` it comes byte by byte, without an end.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.result: Any = True
        self.status = 200
        self.body: bytes | None = None
        self.drips = False
        self.inputs: list[dict[str, Any]] = []
        self.traceparents: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1/data/mlxctl/decision"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, OpaDouble)
        server.inputs.append(json.loads(self.rfile.read(int(self.headers["content-length"])))["input"])
        server.traceparents.append(self.headers["traceparent"])
        body = server.body or json.dumps({} if server.result is None else {"result": server.result}).encode()
        if server.drips:
            self._drip()
            return
        self.send_response(server.status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _drip(self) -> None:
        self.send_response(200)
        self.end_headers()
        with suppress(OSError):
            while True:
                self.wfile.write(b" ")
                time.sleep(0.01)

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def opa_double() -> Iterator[OpaDouble]:
    """Yield a running server."""
    with running(OpaDouble()) as server:
        yield server
