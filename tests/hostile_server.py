"""A server whose answers have escape sequences in every text."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.http_double import running

TEXT = "evil\x1b]0;PWNED\x07\x9b31m\u202e\u200f[/x] $(name)\nmlxctl: forged"
"""Sets the title, in C1 the color, turns the direction of text, ends Rich's markup, and begins a line."""
ENDLESS = b"endless"
"""A body that is sent until the client leaves."""

_KEY = {"id": TEXT, "name": TEXT, "source": "store", "scopes": ["generate"], "models": [TEXT], "key": TEXT}
_AGENT = {
    "id": TEXT,
    "model": TEXT,
    "status": TEXT,
    "num_messages": 1,
    "context_tokens": 2,
    "cached_tokens": 3,
    "created_at": 1,
    "last_access_at": 2,
    "instructions": TEXT,
}
_ADAPTER = {
    "id": TEXT,
    "model": TEXT,
    "path": TEXT,
    "format": TEXT,
    "rank": 8,
    "scale": 2.0,
    "size_bytes": 4096,
    "mounted_layers": 4,
}
_CARD = {
    "id": TEXT,
    "object": TEXT,
    "state": TEXT,
    "pinned": True,
    "size_bytes": 1,
    "max_model_len": 131_072,
    "problem": TEXT,
    "supports_tools": True,
    "quantization": TEXT[:20],
}
_CHUNK = {
    "parent": None,
    "model": TEXT,
    "namespace": TEXT,
    "start": 0,
    "num_tokens": 2,
    "text": TEXT,
    "memory_bytes": 1,
    "disk_bytes": 2,
    "checkpoints": [1],
    "num_hits": 3,
    "used_at": 1.0,
    "expires_at": 2.0,
    "is_pinned": True,
    "is_in_use": False,
}
_CHUNKS = [{**_CHUNK, "key": "aa", "token_ids": [1, 2]}, {**_CHUNK, "key": "bb", "token_ids": [1, 3]}]
_EXPLANATION = {
    "number": 2,
    "at": 1.0,
    "model": TEXT,
    "session_id": TEXT,
    "num_prompt_tokens": 9,
    "num_cached_tokens": 3,
    "reason": "evicted",
    "sentence": TEXT,
    "compared_with": 1,
    "divergence": {
        "position": 3,
        "reason": "head_changed",
        "part": TEXT,
        **dict.fromkeys(("place", "before", "here", "there"), TEXT),
    },
}
_REQUEST = {
    "number": 1,
    "state": "waiting",
    **dict.fromkeys(("num_prompt_tokens", "num_read_tokens", "num_cached_tokens", "num_generated_tokens"), 9),
    **dict.fromkeys(("started_at", "age_seconds", "first_token_seconds", "tokens_per_second"), 1.5),
    **dict.fromkeys(
        ("model", "request_id", "caller", "protocol", "session_id", "agent", "adapter", "finish_reason"), TEXT
    ),
    "hit": TEXT,
}
_COUNTERS = (
    "num_waiting", "num_prefilling", "num_decoding", "num_prompt_tokens", "num_generated_tokens",
    "cache_bytes", "cache_max_bytes", "cache_chunks", "cache_evicted", "cache_tokens_reused",
    "active_memory_bytes",
)  # fmt: skip
_STATS = {
    **dict.fromkeys(_COUNTERS, 100),
    "cache_hits": {TEXT: 2, "miss": 1},
    "pool": {
        "models": [
            {"name": TEXT, "weights_bytes": 1, "is_pinned": True, "num_requests": 1, "idle_seconds": 2.0}
        ]
    },
    "admission": {"usable_bytes": 10, "machine_memory_bytes": 20, "admission": TEXT},
    "kv_quant": {TEXT: {"mode": TEXT, "layers": {TEXT: 2}}},
    "draft_tokens": {TEXT: [3, 1]},
    "server": {"owner": TEXT, "version": TEXT},
}
_CHANGED = {"num_changed": 1, "num_chunks": 2}
_STATUS = {"model": TEXT, "state": TEXT, "pinned": True}
_RULES = {"blocklist": [TEXT], "models": [TEXT]}
_TESTED = {"verdict": None, "text": TEXT, "matches": []}
_VIEW = {"id": TEXT, "lastModified": TEXT}
# By method and the beginning of the path; the first that fits.
_SHAPES: dict[str, Any] = {
    "GET /stats": _STATS,
    "GET /requests": {"requests": [_REQUEST]},
    "DELETE /requests": {"id": TEXT, "cancelled": [1, 2]},
    "GET /v1/models": {"data": [_CARD]},
    "GET /health": {"version": TEXT, "engine": {"backend": TEXT, "device": TEXT, "mlx_version": TEXT}},
    "GET /v1/agents?": {"data": [_AGENT], "has_more": False, "last_id": TEXT},
    "GET /v1/agents/a/messages": {
        "data": [{"message": {"role": TEXT, "content": TEXT, "tool_calls": [{"name": TEXT}]}}],
        "has_more": False,
    },
    "GET /v1/agents": _AGENT,
    "GET /v1/adapters": {"adapters": [_ADAPTER]},
    "POST /v1/adapters": _ADAPTER,
    "DELETE /v1/adapters": _ADAPTER,
    "GET /cache/explain": {"explanations": [_EXPLANATION]},
    "POST /cache/explain": {"explanations": [_EXPLANATION]},
    "GET /cache": {
        "chunks": _CHUNKS,
        "num_chunks": 2,
        "next_offset": None,
        "user_markers": {TEXT: [TEXT, TEXT]},
    },
    "POST /cache": _CHANGED,
    "GET /admin/keys/": _KEY,
    "GET /admin/keys": {"keys": [_KEY]},
    "POST /admin/guardrails": _TESTED,
    "GET /admin/guardrails": _RULES,
    "PUT /admin/guardrails": _RULES,
    "GET /admin/limits/": {"all_models": {}, "models": {TEXT: {}}},
    "PUT /admin/limits/": {"all_models": {}, "models": {TEXT: {}}},
    "GET /admin/limits": {"burst": 1},
    "PUT /admin/limits": {"burst": 1},
    "POST /admin/keys": _KEY,
    "PATCH /admin/keys": _KEY,
    "DELETE /admin/keys": _KEY,
    "GET /admin/": {TEXT: TEXT, "max_rows": 4},
    "PATCH /admin/": {TEXT: TEXT, "max_rows": 4},
    "POST /models/load?": [{**_STATUS, "bytes_loaded": 1, "bytes_total": 2}, _STATUS],
    "POST /models/": _STATUS,
    "GET /api/models?": [_VIEW],
    "POST /v1/chat/completions": [
        {"choices": [{"delta": {"reasoning_content": TEXT}}]},
        {"choices": [{"delta": {"content": TEXT}}]},
        {"choices": [{"delta": {}, "finish_reason": TEXT}]},
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 3}},
    ],
}


UNEXPECTED = {
    "HTML": b"<!doctype html><title>Sign in</title>",
    "nothing": b"",
    "a list": b"[]",
    "null": b"null",
    "a text": json.dumps(TEXT).encode(),
    "other types": json.dumps(
        {
            name: [{"id": 5}]
            for name in ("data", "requests", "pool", "adapters", "chunks", "explanations", "keys")
        }
    ).encode(),
    "not a number": b'{"data": NaN, "num_waiting": NaN}',
    "beyond floats": b'{"data": [], "num_waiting": 1e999}',
    "beyond 64 bits": b'{"data": [], "num_waiting": 1' + b"0" * 400 + b"}",
    "a deep value": b'{"data": ' + b"[" * 100_000,
    "invalid UTF-8": b'{"data": "\xff"}',
}
"""Bodies that are no answer of mlxctl."""


def shape(request: str) -> Any:
    """Return the answer to `METHOD /path`; a list is a stream."""
    return next((found for start, found in _SHAPES.items() if request.startswith(start)), {})


def error_body() -> dict[str, Any]:
    """Return an error in mlxctl's format."""
    return {"error": {"message": TEXT, "type": TEXT, "code": TEXT, "param": TEXT}, "detail": TEXT}


class HostileServer(ThreadingHTTPServer):
    """Answers every request with `status` and `body`.

    Without a body, with the right fields and hostile texts in them. `hold` keeps answers until the client
    leaves. Both are only for paths that begin with `path`.
    """

    daemon_threads = True

    def __init__(
        self, status: int = 200, body: bytes | None = None, *, hold: bool = False, path: str = "/"
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = status
        self.body = body
        self.hold = hold
        self.path = path
        self.held = threading.Event()
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def server_close(self) -> None:
        self.released.set()
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that leave."""


class _Handler(BaseHTTPRequestHandler):
    server: HostileServer

    def log_message(self, *arguments: object) -> None:
        """Write no log."""

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        is_chosen = self.path.startswith(self.server.path)
        if self.server.hold and is_chosen:
            self.server.held.set()
            self.server.released.wait()
            return
        answer = shape(f"{self.command} {self.path}")
        is_stream = isinstance(answer, list) and "/api/" not in self.path
        if self.server.body is not None and is_chosen:
            data = self.server.body
        elif self.server.status >= 300:
            data = json.dumps(error_body()).encode()
        elif is_stream:
            data = (
                b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in answer) + b"data: [DONE]\n\n"
            )
        else:
            data = json.dumps(answer).encode()
        self._send(data, is_stream=is_stream)

    def _send(self, data: bytes, *, is_stream: bool) -> None:
        # The reason of the status line, and some headers, may have C1 controls.
        self.send_response(self.server.status, "evil\x9b31m")
        self.send_header("Content-Type", "text/event-stream" if is_stream else "application/json")
        self.send_header("Location", "http://evil\x9b31m/")
        self.send_header("Retry-After", "\xb2\x9b31m")
        self.send_header("Connection", "close")
        self.end_headers()
        if data != ENDLESS:
            self.wfile.write(data)
            return
        piece = b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n' * 100
        while not self.server.released.is_set():
            self.wfile.write(piece)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 -- http.server's names


@contextmanager
def hostile(
    status: int = 200, body: bytes | None = None, *, hold: bool = False, path: str = "/"
) -> Iterator[HostileServer]:
    """Yield a running server."""
    with running(HostileServer(status, body, hold=hold, path=path)) as server:
        try:
            yield server
        finally:
            server.released.set()
