"""A hub on loopback with the endpoints of a download."""

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class TinyHub:
    """Contents, behavior and request log of the hub.

    `drop_after` closes one connection in the middle of a file. `page` answers requests in place of the hub,
    as a proxy does: all, or those for contents of files.
    """

    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refusals: dict[str, tuple[int, str]] = field(default_factory=dict)
    seconds_per_piece: float = 0.0
    drop_after: int | None = None
    page: bytes | None = None
    page_replaces: Literal["everything", "files"] = "everything"
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def fetched(self) -> list[str]:
        """The files whose content was requested."""
        return [
            line.rpartition("/")[2] for line in self.asked if line.startswith("GET") and "/resolve/" in line
        ]

    def server_settings(self, cache_dir: Path) -> dict[str, str]:
        """Return the settings of a server that downloads into `cache_dir`."""
        return {
            "HF_ENDPOINT": self.url,
            "MLXCTL_LIBRARY_HUB_CACHE": str(cache_dir),
            "MLXCTL_LIBRARY_ALLOW_DOWNLOADS": "yes",
        }

    def found(self) -> list[dict[str, object]]:
        """The answer to a search that names all repositories, with made-up counts."""
        return [
            {"id": name, "downloads": 7, "lastModified": "2026-01-02T03:04:05.000Z", "tags": ["mlx"]}
            for name in self.files
        ]


@contextmanager
def running(hub: TinyHub) -> Iterator[TinyHub]:
    """Run the hub inside the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def log_message(self, *arguments: object) -> None:
            pass

        def _answer(self, *, with_body: bool) -> None:
            hub.asked.append(f"{self.command} {self.path}")
            path = self.path.partition("?")[0].strip("/")
            repository = "/".join(path.removeprefix("api/models/").split("/")[:2])
            is_file = "/resolve/" in path and with_body
            if hub.page is not None and (is_file or hub.page_replaces == "everything"):
                headers = {"Content-Type": "text/html", "ETag": '"page"', "X-Repo-Commit": COMMIT}
                self._send(200, hub.page, headers, with_body=with_body)
            elif path == "api/models":
                self._send_json(hub.found())
            elif repository in hub.refusals or repository not in hub.files:
                status, code = hub.refusals.get(repository, (404, "RepoNotFound"))
                self._send(status, b"{}", {"X-Error-Code": code}, with_body=with_body)
            elif "/tree/" in path:
                self._send_json(
                    [
                        {
                            "type": "file",
                            "path": name,
                            "size": len(content),
                            "oid": hashlib.sha1(content).hexdigest(),
                        }
                        for name, content in hub.files[repository].items()
                    ]
                )
            elif path.startswith("api/"):
                self._send_json(
                    {
                        "id": repository,
                        "sha": COMMIT,
                        "siblings": [{"rfilename": n} for n in hub.files[repository]],
                    }
                )
            else:
                self._send_file(hub.files[repository][path.split(f"/{COMMIT}/")[1]], with_body=with_body)

        def _send_json(self, value: object) -> None:
            self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"}, with_body=True)

        def _send_file(self, content: bytes, *, with_body: bool) -> None:
            start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").split("-")[0])
            headers = {
                "ETag": f'"{hashlib.sha1(content).hexdigest()}"',
                "X-Repo-Commit": COMMIT,
                "Accept-Ranges": "bytes",
            }
            if start:
                headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self._send(206 if start else 200, content[start:], headers, with_body=with_body)

        def _send(self, status: int, body: bytes, headers: dict[str, str], *, with_body: bool) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            for start in range(0, len(body), 65536) if with_body else ():
                if hub.drop_after is not None and start >= hub.drop_after:
                    hub.drop_after = None
                    self.close_connection = True
                    return
                time.sleep(hub.seconds_per_piece)
                self.wfile.write(body[start : start + 65536])

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
