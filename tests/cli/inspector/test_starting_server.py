"""Commands about a server whose engine is not there yet."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from mlxctl.cli.server_client import ServerClient
from mlxctl.ir.errors import CapacityError
from tests.http_double import running

CARD = {
    "id": "later",
    "state": "not_loaded",
    "pinned": False,
    "size_bytes": 1000,
    "max_model_len": 2048,
    "problem": None,
}


class _Starting(BaseHTTPRequestHandler):
    """Answers as `mlxctl serve` does while its engine starts."""

    def log_message(self, *arguments: object) -> None:
        """Write no log."""

    def do_GET(self) -> None:
        is_list = self.path == "/v1/models"
        error = {"error": {"message": "the engine is starting", "code": "model_loading"}}
        body = json.dumps({"data": [CARD]} if is_list else error).encode()
        self.send_response(200 if is_list else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_models_are_listed_while_the_engine_starts() -> None:
    with running(ThreadingHTTPServer(("127.0.0.1", 0), _Starting)) as server:
        (row,) = ServerClient(f"http://127.0.0.1:{server.server_port}", api_key=None).model_rows()
    assert (row.name, row.state, row.num_requests) == ("later", "not_loaded", None)


def test_a_server_that_is_not_ready_says_so() -> None:
    with running(ThreadingHTTPServer(("127.0.0.1", 0), _Starting)) as server:
        connection = ServerClient(f"http://127.0.0.1:{server.server_port}", api_key=None)
        with pytest.raises(CapacityError, match="the server is not ready: the engine is starting"):
            connection.request("GET", "/stats", dict)
