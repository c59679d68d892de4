"""Start, failed start and stop of a server."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from mlxctl.cli import app
from mlxctl.server.http.address import claim_address
from mlxctl.server.http.disconnect import Receive, Scope, Send
from mlxctl.server.http.listener import Listener
from mlxctl.state import locations
from mlxctl.state.settings import ServerSettings

from .process import END_SECONDS, ServerProcess, is_alive, serving, wait_for

BODY = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 20_000}


def serve(*arguments: str) -> Result:
    """Run a server that is expected to fail at the start."""
    return CliRunner().invoke(app, ["serve", *arguments])


def engine_sockets() -> set[str]:
    return {path.name for path in locations.runtime_directory().glob("engine-*")}


def test_heavy_modules_are_not_imported_at_the_start() -> None:
    heavy = [
        "jinja2",
        "tokenizers",
        "importlib.metadata",
        "llguidance",
        "httpx",
        "numpy",
        "PIL",
        "prometheus_client",
        "mlx",
    ]
    script = (
        "import sys; from mlxctl.server.wiring import build_services; from mlxctl.server import create_app\n"
        "from mlxctl.state.settings import Settings; settings = Settings()\n"
        "create_app(build_services(settings), settings.server)\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )


def test_stop_signal_drains_and_leaves_no_processes(endless_model: Path) -> None:
    with serving(endless_model, MLXCTL_SERVER_DRAIN_SECONDS="4") as server:
        engine = server.engine_pid()
        with (
            httpx.Client() as client,
            httpx.stream("POST", f"{server.url}/v1/messages", json={**BODY, "stream": True}) as response,
        ):
            lines = response.iter_lines()
            next(lines)
            server.process.send_signal(signal.SIGTERM)
            wait_for(lambda: client.get(f"{server.url}/health").json()["status"] == "draining", seconds=20)
            refused = client.post(f"{server.url}/v1/chat/completions", json=BODY)
            rest = [line for line in lines if line]
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
        assert "retry-after" in refused.headers
        assert any("text_delta" in line for line in rest)
        assert rest[-2] == "event: error"
        assert server.process.wait(timeout=END_SECONDS) == 0
        assert not is_alive(engine)
        assert str(server.process.pid) not in "".join(engine_sockets())


def test_second_signal_ends_server_and_engine_at_once(endless_model: Path) -> None:
    with serving(endless_model) as server:
        engine = server.engine_pid()
        with httpx.stream(
            "POST", f"{server.url}/v1/messages", json={**BODY, "stream": True}, timeout=30
        ) as response:
            # Held: a client that lets go of its answer leaves, and then nothing keeps the server from ending
            # by itself.
            lines = response.iter_lines()
            next(lines)
            server.process.send_signal(signal.SIGTERM)
            wait_for(lambda: server.health()["status"] == "draining", seconds=20)
            assert server.stop(signal.SIGTERM) == 128 + signal.SIGTERM
        wait_for(lambda: not is_alive(engine), seconds=END_SECONDS)


@pytest.fixture(autouse=True)
def usual_signals() -> Iterator[None]:
    """Restore default signal handlers, since the tests may run under nohup."""
    previous = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, previous)


def test_second_sighup_does_not_interrupt_the_drain(endless_model: Path) -> None:
    with serving(endless_model, MLXCTL_SERVER_DRAIN_SECONDS="60") as server:
        # Long enough that the drain lasts until both signals have come.
        body = {**BODY, "stream": True, "max_tokens": 500}
        with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=body, timeout=30) as response:
            lines = response.iter_lines()
            next(lines)
            for pid in (server.engine_pid(), server.process.pid):
                os.kill(pid, signal.SIGHUP)
            wait_for(lambda: server.health()["status"] == "draining", seconds=20)
            server.process.send_signal(signal.SIGHUP)
            rest = [line for line in lines if line]
        assert '"finish_reason":"length"' in rest[-2]
        assert rest[-1] == "data: [DONE]"
        assert server.process.wait(timeout=END_SECONDS) == 0


def test_server_can_be_stopped_while_loading(endless_model: Path) -> None:
    server = ServerProcess("--model", str(endless_model))
    try:
        assert server.stop() == 0
    finally:
        server.kill()


@pytest.mark.parametrize("option", ["--model", "--models-dir"])
def test_requests_get_503_until_the_model_is_loaded(endless_model: Path, tmp_path: Path, option: str) -> None:
    (tmp_path / "tiny").symlink_to(endless_model)
    server = ServerProcess(option, str(tmp_path / "tiny" if option == "--model" else tmp_path))
    try:
        with _stopped_engine(server):
            wait_for(lambda: _answers(server.url), seconds=20)
            assert server.health()["status"] == "starting"
            name = httpx.get(f"{server.url}/v1/models", timeout=30).json()["data"][0]["id"]
            body = {**BODY, "model": name, "max_tokens": 1}
            refused = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=30)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "model_loading")
        assert "retry-after" in refused.headers
        wait_for(lambda: httpx.get(f"{server.url}/readyz").status_code == 200, seconds=60)
        assert httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=30).status_code == 200
    finally:
        server.process.terminate()
        _, errors = server.process.communicate(timeout=END_SECONDS)
        server.kill()
    assert "Traceback" not in errors


@contextmanager
def _stopped_engine(server: ServerProcess) -> Iterator[None]:
    """Stop the engine of a starting server before its model is loaded."""
    command = ["pgrep", "-P", str(server.process.pid), "-f", "mlxctl.engine.process"]
    found: list[str] = []

    def is_found() -> bool:
        found[:] = subprocess.run(command, capture_output=True, text=True).stdout.split()
        return bool(found)

    wait_for(is_found, seconds=20)
    engine = int(found[0])
    os.kill(engine, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(engine, signal.SIGCONT)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/livez").status_code == 200
    except httpx.ConnectError:
        return False


def test_the_front_imports_neither_mlx_nor_transformers() -> None:
    program = "import sys, mlxctl.cli.serve, mlxctl.cli.banner, mlxctl.server; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in run.stdout.split()}
    assert {"falcon", "granian", "mlxctl"} <= loaded
    assert loaded.isdisjoint({"mlx", "mlx_lm", "transformers", "numpy", "torch"})


def test_port_in_use_is_one_error_line(endless_model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        run = serve("--model", str(endless_model), "--port", str(port))
    assert (run.exit_code, run.stdout) == (1, "")
    assert run.stderr == (
        f"mlxctl: port {port} on 127.0.0.1 is already in use; choose another with --port, or stop the "
        f"program that holds it (`mlxctl models ps --url http://127.0.0.1:{port}` answers if it is mlxctl)\n"
    )


def test_two_servers_never_share_a_port(endless_model: Path) -> None:
    server = ServerProcess("--model", str(endless_model))
    try:
        wait_for(lambda: _answers(server.url), seconds=20)
        port = server.url.rsplit(":", 1)[1]
        assert "already in use" in serve("--model", str(endless_model), "--port", port).stderr
    finally:
        server.kill()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "/nowhere/model"], "/nowhere/model"),
        (["--host", "no.such.host.invalid"], "no.such.host.invalid"),
        (["--config", "/nowhere/mlxctl.toml"], "/nowhere/mlxctl.toml"),
        (["--memory-limit", "plenty"], "plenty"),
        (["--memory-limit", "0"], "expected at least 1"),
        (["--memory-limit", "900TB"], "the memory of this machine"),
    ],
)
def test_configuration_errors_are_one_line(arguments: list[str], message: str) -> None:
    run = serve("--port", "0", *arguments)
    assert run.exit_code in (1, 2)
    assert run.stderr.startswith("mlxctl: ")
    assert run.stderr.count("\n") == 1
    assert message in run.stderr


def test_model_that_does_not_fit_is_one_error_line(endless_model: Path) -> None:
    run = serve("--port", "0", "--model", str(endless_model), "--memory-limit", "10KB")
    assert run.exit_code == 1
    assert run.stderr.startswith("mlxctl: ")
    assert "memory limit" in run.stderr
    assert run.stderr.count("\n") == 1


def attached_threads() -> set[int]:
    """Return the threads of the interpreter, native ones included."""
    return set(sys._current_exceptions())


def test_stopped_listener_leaves_no_native_thread_in_the_interpreter() -> None:
    """A busy thread delays the native ones, as a busy machine does."""
    is_over = threading.Event()

    def keep_busy() -> None:
        while not is_over.is_set():
            pass

    async def start_and_stop() -> None:
        listener = Listener(unused_application, claim_address("127.0.0.1", 0), ServerSettings())
        await listener.start(on_end=lambda: None)
        await listener.stop()

    async def unused_application(*_: object) -> None:
        raise AssertionError("no request is sent")

    busy = threading.Thread(target=keep_busy)
    busy.start()
    try:
        before = attached_threads()
        for _ in range(10):
            asyncio.run(start_and_stop())
            assert attached_threads() <= before
    finally:
        is_over.set()
        busy.join()


def test_ended_request_in_a_reference_cycle_keeps_no_native_thread() -> None:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        cycle: list[Any] = [send]
        cycle.append(cycle)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def start_ask_and_stop() -> int:
        address = claim_address("127.0.0.1", 0)
        listener = Listener(answer, address, ServerSettings())
        await listener.start(on_end=lambda: None)
        async with httpx.AsyncClient() as client:
            status = (await client.get(address.url)).status_code
        await listener.stop()
        return status

    before = attached_threads()
    assert asyncio.run(start_ask_and_stop()) == 204
    assert attached_threads() <= before


def test_nohup_ignores_sighup_and_ctrl_c_stops_the_whole_process_group(endless_model: Path) -> None:
    """Signals reach front and engine; only the front may stop both."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with serving(endless_model) as server:
        engine = server.engine_pid()
        for pid in (engine, server.process.pid):
            os.kill(pid, signal.SIGHUP)
        time.sleep(0.2)
        assert server.health()["status"] == "ok"
        for pid in (engine, server.process.pid):
            os.kill(pid, signal.SIGINT)
        assert server.process.wait(timeout=END_SECONDS) == 0
        assert not is_alive(engine)
