"""A chat server that echoes the question."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

_CALLS = {
    "use a tool": ("calculator", '{"expression": "6*7"}'),
    "list files": ("list_directory", '{"path": "docs"}'),
    "hang": ("files__hang", "{}"),
    "look outside": ("list_directory", '{"path": "/"}'),
}


class _Echo(BaseHTTPRequestHandler):
    """Echoes the question; rejects some requests for models first."""

    num_refusals: ClassVar[list[int]]
    needs_key: ClassVar[bool]
    asked: ClassVar[list[object]]

    def log_message(self, *arguments: object) -> None:
        """Write no log."""

    def do_GET(self) -> None:
        if self.needs_key and self.headers["Authorization"] != "Bearer right":
            self._answer(401, json.dumps({"error": {"message": "send a bearer"}}), "application/json", {})
        elif self.num_refusals[0]:
            self.num_refusals[0] -= 1
            body = {"error": {"message": "the model is still being loaded"}}
            self._answer(503, json.dumps(body), "application/json", {"Retry-After": "1"})
        else:
            self._answer(200, json.dumps({"data": [{"id": "echo"}]}), "application/json", {})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        question = request["messages"][-1]["content"]
        self.asked.append(question)
        if question == "once" and self.asked.count("once") > 1:
            self._answer(400, json.dumps({"error": {"message": "no \x1b[31m"}}), "application/json", {})
            return
        delta: dict[str, object] = {"content": f"You said: {question}"}
        if question in _CALLS:
            function = dict(zip(("name", "arguments"), _CALLS[question], strict=True))
            delta = {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}
        chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}]
        reason = "tool_calls" if "tool_calls" in delta else "stop"
        chunks += [{"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}]
        events = "".join(
            f"data: {json.dumps({'id': 'x', 'object': 'chat.completion.chunk', **chunk})}\n\n"
            for chunk in chunks
        )
        self._answer(200, events + "data: [DONE]\n\n", "text/event-stream", {})

    def _answer(self, status: int, body: str, kind: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(body.encode())),
            **headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())


@contextmanager
def echo_server(*, num_refusals: int = 0, needs_key: bool = False) -> Iterator[str]:
    """Run an echo server; yields its URL."""
    handler = type("Echo", (_Echo,), {"num_refusals": [num_refusals], "needs_key": needs_key, "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
