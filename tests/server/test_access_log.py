"""One log line per request, with its figures and without its content."""

import json
import logging
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from mlxctl.inference.request_entry import RequestEntry
from mlxctl.server.observe.access_log import access_fields
from mlxctl.server.observe.audit import audit_record
from mlxctl.server.observe.http_record import HttpRecord
from mlxctl.server.observe.log_output import logging_to_standard_error
from mlxctl.state.log_format import find_reason
from mlxctl.state.settings import ServerSettings

from .process import END_SECONDS, ServerProcess
from .test_disconnect import ask

T = TypeVar("T")
CANARY = "zebra-canary-7391"


class LoggedServer(ServerProcess):
    """A server whose log lines are collected as they come."""

    def __init__(self, *arguments: str, environment: dict[str, str] | None = None) -> None:
        super().__init__(*arguments, environment=environment)
        self._grown = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._grown:
                self.lines.append(line.rstrip("\n"))
                self._grown.notify_all()

    def line(self, pattern: str) -> str:
        """Wait for a line that matches and return it."""
        return self._wait(lambda: next((line for line in self.lines if re.search(pattern, line)), None))

    def request(self, request_id: str) -> dict[str, Any]:
        """Wait for the access line of a request in a JSON log."""

        def find() -> dict[str, Any] | None:
            lines = (json.loads(line) for line in self.lines if f'"{request_id}"' in line)
            return next((line for line in lines if "method" in line), None)

        return self._wait(find)

    def _wait(self, find: Callable[[], T | None]) -> T:
        with self._grown:
            assert self._grown.wait_for(find, timeout=60), self.lines[-5:]
            found = find()
        assert found is not None
        return found

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(timeout=END_SECONDS)
        self._reader.join(timeout=END_SECONDS)
        super().kill()


@contextmanager
def logged(*arguments: str, **environment: str) -> Iterator[LoggedServer]:
    server = LoggedServer(*arguments, environment=environment)
    try:
        server.wait_ready()
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="module")
def json_server(endless_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoggedServer]:
    """Completions have a second, one model is broken; no disk tier."""
    models = tmp_path_factory.mktemp("models")
    (models / "broken").mkdir()
    (models / "broken" / "config.json").write_text("{")
    arguments = ["--model", str(endless_model), "--name", "tiny", "--log-format", "json"]
    arguments += [
        "--no-any-model-name",
        "--models-dir",
        str(models),
        "--cache-dir",
        str(models / "broken" / "config.json" / "prefixes"),
    ]
    with logged(*arguments, MLXCTL_SERVER_TIMEOUTS="completions=1") as server:
        yield server


@pytest.fixture(scope="module")
def debug_server(endless_model: Path) -> Iterator[LoggedServer]:
    with logged("--model", str(endless_model), "--name", "tiny", "--log-level", "debug") as server:
        yield server


@pytest.fixture(scope="module")
def open_server(endless_model: Path) -> Iterator[LoggedServer]:
    """A server that logs content."""
    arguments = ("--model", str(endless_model), "--name", "tiny", "--log-level", "debug", "--log-content")
    with logged(*arguments) as server:
        yield server


def test_every_line_of_a_json_log_is_json(json_server: LoggedServer) -> None:
    warning = json.loads(json_server.line("without its disk tier"))
    assert (warning["level"], warning["logger"]) == ("warning", "mlxctl.prefix_cache.disk.tier")
    assert json.loads(json_server.line("'broken'"))["level"] == "error"
    assert all(json.loads(line) for line in json_server.lines)


def test_start_is_logged_as_json_too(json_server: LoggedServer) -> None:
    start = json.loads(json_server.line("ready after"))
    tiny = {"name": "tiny", "state": "loaded", "max_safe_context": 32_768}
    assert (start["url"], start["models"][0]) == (json_server.url, tiny)
    assert json_server.process.stdout is not None
    output = json_server.process.stdout.fileno()
    os.set_blocking(output, False)
    with pytest.raises(BlockingIOError):
        os.read(output, 1)


def test_reason_for_which_a_server_with_a_json_log_ends_is_json(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mlxctl", "serve", str(tmp_path / "none"), "--log-format", "json"]
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run(
        [*command, "--port", "0", "--api-key", "secret"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    lines = [json.loads(line) for line in (done.stdout + done.stderr).splitlines()]
    assert done.returncode == 1
    assert "can see keys of the command line" in next(
        line["message"] for line in lines if line["level"] == "warning"
    )
    assert str(find_reason(done.stderr)).startswith("there is no model")


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("mlxctl: the port is taken\nlibc++abi: terminating\n", "the port is taken"),
        ('{"level":"error","message":"the port is taken"}\n\nTerminated\n', "the port is taken"),
        ("Traceback\n  File 1\nImportError: no mlx\n", "ImportError: no mlx"),
        ("Killed\n", "Killed"),
        ("\n", None),
    ],
)
def test_reason_of_an_ended_server_is_found_in_its_log(log: str, reason: str | None) -> None:
    assert find_reason(log) == reason


def body(**fields: object) -> dict[str, object]:
    messages = [{"role": "user", "content": f"Tell me of {CANARY}. " * 8}]
    return {"model": "tiny", "messages": messages, "max_tokens": 5, **fields}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_request_is_logged_with_its_figures(json_server: LoggedServer, path: str, stream: bool) -> None:
    request_id = f"figures{path.replace('/', '-')}-{stream}"
    headers = {"x-request-id": request_id}
    for suffix in ("", "-again"):
        sent = {"x-request-id": request_id + suffix}
        assert (
            httpx.post(f"{json_server.url}{path}", json=body(stream=stream), headers=sent).status_code == 200
        )
    line, again = json_server.request(headers["x-request-id"]), json_server.request(f"{request_id}-again")

    assert (line["method"], line["route"], line["status"], line["model"]) == ("POST", path, 200, "tiny")
    assert (line["completion_tokens"], line["finish_reason"], line["level"]) == (5, "length", "info")
    assert 0 < line["first_token_seconds"] <= line["total_seconds"]
    assert again["cached_tokens"] == again["prompt_tokens"] - 1 > 0


def test_concurrent_requests_do_not_mix_their_lines(json_server: LoggedServer) -> None:
    def send(number: int) -> None:
        headers = {"x-request-id": f"mixed-{number}"}
        sent = body(
            max_tokens=number + 1, messages=[{"role": "user", "content": "word " * (10 * number + 1)}]
        )
        httpx.post(f"{json_server.url}/v1/chat/completions", json=sent, headers=headers, timeout=60)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(send, range(16)))
    lines = [json_server.request(f"mixed-{number}") for number in range(16)]
    assert [line["completion_tokens"] for line in lines] == [number + 1 for number in range(16)]
    assert sorted(line["prompt_tokens"] for line in lines) == [line["prompt_tokens"] for line in lines]


def test_refused_request_is_logged_with_its_error_code(json_server: LoggedServer) -> None:
    headers = {"x-request-id": "refused"}
    httpx.post(f"{json_server.url}/v1/chat/completions", json=body(model="other"), headers=headers)
    line = json_server.request("refused")
    assert (line["status"], line["error"], line["model"]) == (404, "model_not_found", "other")
    assert "prompt_tokens" not in line


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("/v1/chat/completions", {"adapter": "none-such"}),
        ("/v1/messages", {"messages": [{"role": "user", "content": "word " * 40_000}]}),
        ("/v1/messages/count_tokens", {}),
        ("/tokenize", {}),
    ],
)
def test_request_that_generates_nothing_is_logged_with_its_model(
    json_server: LoggedServer, path: str, sent: dict[str, object]
) -> None:
    headers = {"x-request-id": f"nothing{path.replace('/', '-')}"}
    httpx.post(f"{json_server.url}{path}", json=body(**sent), headers=headers, timeout=60)
    assert json_server.request(headers["x-request-id"])["model"] == "tiny"


def test_prompt_that_was_not_read_to_its_end_is_logged_whole() -> None:
    request = HttpRecord(request_id="cut")
    entry = RequestEntry(1, "tiny", num_prompt_tokens=100, on_end=lambda _: None, clock=time.monotonic)
    request.add(entry)
    entry.prefilled(40, 10)
    entry.end("stopped")
    assert access_fields(request)["prompt_tokens"] == audit_record(request).prompt_tokens == 100
    assert audit_record(request).computed_tokens == 30


def test_request_of_a_client_that_left_is_logged_as_disconnected(json_server: LoggedServer) -> None:
    connection = ask(json_server, "/v1/messages", stream=True)
    received = b""
    while received.count(b"data:") < 5:
        received += connection.recv(65536)
    connection.close()
    line = json.loads(json_server.line('"finish_reason":"disconnected"'))
    assert (line["status"], line["route"]) == (200, "/v1/messages")
    shown = httpx.get(f"{json_server.url}/requests").json()["requests"]
    assert next(one for one in shown if one["request_id"] == line["request_id"])["state"] == "disconnected"


def test_request_past_its_deadline_is_logged_as_timed_out(json_server: LoggedServer) -> None:
    for stream in (False, True):
        headers = {"x-request-id": f"late-{stream}"}
        sent = {"model": "tiny", "prompt": CANARY, "max_tokens": 20_000, "stream": stream}
        httpx.post(f"{json_server.url}/v1/completions", json=sent, headers=headers, timeout=60)
    lines = [json_server.request(f"late-{stream}") for stream in (False, True)]
    assert [line["status"] for line in lines] == [504, 200]
    assert {(line["finish_reason"], line["error"]) for line in lines} == {("timed_out", "deadline_exceeded")}


def test_text_line_holds_no_line_break_of_a_path(debug_server: LoggedServer) -> None:
    httpx.get(f"{debug_server.url}/no%0Asuch%20route", headers={"x-request-id": "broken"})
    httpx.get(f"{debug_server.url}/health")
    httpx.get(f"{debug_server.url}/v1/models", headers={"x-request-id": "last"})
    line = debug_server.line("request_id=broken")
    debug_server.line("request_id=last")
    assert re.search(
        r"INFO mlxctl\.server\.observe\.access_log: GET '/no\\nsuch route' 404 .*error=not_found", line
    )
    assert not any("/health" in line for line in debug_server.lines if " DEBUG " not in line)


@pytest.mark.parametrize("with_content", [False, True])
def test_content_is_logged_only_on_request(request: pytest.FixtureRequest, with_content: bool) -> None:
    server: LoggedServer = request.getfixturevalue("open_server" if with_content else "debug_server")
    headers = {"x-request-id": "req-42"}
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=body(), headers=headers).json()
    server.line("POST .*request_id=req-42")
    log = "\n".join(server.lines)
    if with_content:
        log = server.line("content of req-42")
    assert (CANARY in log) == with_content
    assert (f"answer {answer['choices'][0]['message']['content']!r}" in log) == with_content


def test_unread_standard_error_never_stops_the_server(endless_model: Path) -> None:
    arguments = ("--model", str(endless_model), "--name", "tiny", "--log-level", "debug")
    server = ServerProcess(*arguments)
    try:
        server.wait_ready()
        with httpx.Client() as client:
            statuses = {client.get(f"{server.url}/{'x' * 200}").status_code for _ in range(300)}
        assert statuses == {404}
    finally:
        server.kill()


@pytest.mark.parametrize("name", ["httpx", "httpx2"])
def test_requests_to_hub_and_policy_servers_are_not_logged(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with logging_to_standard_error(ServerSettings()):
        logging.getLogger(name).info("HTTP Request: GET http://hub")
        logging.getLogger("mlxctl.server").info("after it")
    assert "HTTP Request" not in (shown := capsys.readouterr().err)
    assert "after it" in shown
