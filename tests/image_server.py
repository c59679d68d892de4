"""An HTTP server of images and of bad answers.

It records its requests.
"""

import gzip
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mlxctl.probe.image_check import one_color_png
from tests.http_double import running

RED = one_color_png((220, 30, 30))
BLUE = one_color_png((30, 60, 220))


class ImageServer(ThreadingHTTPServer):
    """The server; `requests` are pairs of path and headers, in order."""

    daemon_threads = True

    def __init__(self, host: str, tls: ssl.SSLContext | None) -> None:
        super().__init__((host, 0), _Handler)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.released = threading.Event()
        self.num_broken = 0

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Count a connection that its client has ended."""
        self.num_broken += 1


class _Handler(BaseHTTPRequestHandler):
    server: ImageServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer by the name of the path."""
        parts = urlsplit(self.path)
        self.server.requests.append((self.path, dict(self.headers)))
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        getattr(self, f"_{parts.path[1:]}")(query)

    def _red(self, _: dict[str, str]) -> None:
        self._send(RED, "text/plain")

    def _blue(self, _: dict[str, str]) -> None:
        self._send(BLUE, "image/png")

    def _page(self, _: dict[str, str]) -> None:
        self._send(b"<html>" + b" " * 100, "image/png")

    def _padded(self, query: dict[str, str]) -> None:
        self._send(RED + b"\0" * (int(query["bytes"]) - len(RED)), "image/png")

    def _compressed(self, _: dict[str, str]) -> None:
        self._send(gzip.compress(RED), "image/png", ("Content-Encoding", "gzip"))

    def _status(self, query: dict[str, str]) -> None:
        self._send(RED, "image/png", status=int(query["code"]))

    def _redirect(self, query: dict[str, str]) -> None:
        self._send(b"", "text/plain", ("Location", query["to"]), ("Set-Cookie", "a=b"), status=302)

    def _loop(self, _: dict[str, str]) -> None:
        self._send(b"", "text/plain", ("Location", "/loop"), status=302)

    def _endless(self, _: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(RED)
        while True:
            self.wfile.write(b"\0" * 65536)

    def _crumbs(self, _: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(RED), RED))
        while True:
            self.wfile.write(b"1\r\n\0\r\n" * 1000)

    def _interim(self, _: dict[str, str]) -> None:
        while True:
            self.wfile.write(b"HTTP/1.1 100 Continue\r\nPad: " + b"x" * 50_000 + b"\r\n\r\n")

    def _slow(self, _: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(RED[:20])
        while not self.server.released.is_set():
            self.wfile.write(b"\0")
            time.sleep(0.02)

    def _send(self, body: bytes, kind: str, *headers: tuple[str, str], status: int = 200) -> None:
        self.send_response(status)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(body))), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@contextmanager
def image_server(host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Iterator[ImageServer]:
    """Yield the server while it answers requests."""
    with running(ImageServer(host, tls)) as server:
        try:
            yield server
        finally:
            server.released.set()
