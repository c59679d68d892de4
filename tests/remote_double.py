"""Another server that the tests script: one answer for each model."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.http_double import running


def chunks(*pieces: Any, done: bool = True) -> bytes:
    """Return a stream of Chat Completions: texts, and whole chunks."""
    parts = [_delta(each) if isinstance(each, str) else each for each in pieces]
    end = [*map(json.dumps, parts), *(["[DONE]"] if done else [])]
    return b"".join(f"data: {each}\n\n".encode() for each in end)


def _delta(text: str) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text}}]}


END = {
    "choices": [{"delta": {}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """An answer; one that `hangs` never comes."""

    body: bytes = field(default_factory=lambda: chunks("Well", " met", END))
    status: int = 200
    media_type: str = "text/event-stream"
    headers: Mapping[str, str] = field(default_factory=dict)
    hangs: bool = False


class RemoteDouble(ThreadingHTTPServer):
    """Answers by the `scripts` of models, else well.

    `asked` are the bodies, `heads` their headers.
    """

    daemon_threads = True

    def __init__(self, scripts: Mapping[str, Script]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.scripts = dict(scripts)
        self.asked: list[dict[str, Any]] = []
        self.heads: list[dict[str, str]] = []
        self.num_connections = 0
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def num_asked(self, model: str) -> int:
        """Count the requests for a model."""
        return sum(body["model"] == model for body in self.asked)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.num_connections += 1
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that leave."""


class _Handler(BaseHTTPRequestHandler):
    server: RemoteDouble

    def log_message(self, *arguments: object) -> None:
        """Write no log."""

    def do_GET(self) -> None:
        """Have no list of models."""
        self._send(Script(status=404, body=b"{}", media_type="application/json"))

    def do_POST(self) -> None:
        """Answer as the model's script says."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(body)
        self.server.heads.append({name.lower(): value for name, value in self.headers.items()})
        script = self.server.scripts.get(body["model"], Script())
        if script.hangs:
            self.server.released.wait()
        self._send(script)

    def _send(self, script: Script) -> None:
        self.send_response(script.status)
        headers = {"Content-Type": script.media_type, "Connection": "close", **script.headers}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(script.body)


@contextmanager
def remote_double(**scripts: Script) -> Iterator[RemoteDouble]:
    """Yield a running server."""
    with running(RemoteDouble(scripts)) as server:
        try:
            yield server
        finally:
            server.released.set()
