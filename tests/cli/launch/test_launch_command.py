"""`mlxctl launch` against real servers.

With a client that prints its arguments and environment.
"""

import os
import signal
import socket
import socketserver
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mlxctl.cli import app
from mlxctl.cli.launch.background_server import list_models
from mlxctl.ir.errors import ClientNotReady
from tests import tiny_models
from tests.hostile_server import hostile
from tests.http_double import running
from tests.server.process import ServerProcess, wait_for

CLIENT = """#!/bin/sh
echo "$*"
"""


def free_port() -> int:
    """A port of loopback that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A home of its own, with two clients on the path."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("claude", "codex"):
        (directory / name).write_text(CLIENT)
        (directory / name).chmod(0o755)
    return {
        "PATH": f"{directory}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "XDG_RUNTIME_DIR": str(tmp_path),
    }


def launch(environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "mlxctl", "launch", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def run(environment: dict[str, str], *arguments: str) -> Result:
    """Run a command that starts no other program, in this process."""
    places = dict.fromkeys(("XDG_STATE_HOME", "XDG_DATA_HOME"))
    return CliRunner().invoke(app, arguments, env=places | environment, prog_name="mlxctl")


def test_a_client_that_is_not_installed_is_named_with_its_installation(environment: dict[str, str]) -> None:
    done = run(environment, "launch", "opencode")
    assert done.exit_code == 1
    assert "opencode is not installed; install it: npm install -g opencode-ai" in done.stderr


def test_a_short_context_is_the_named_reason(environment: dict[str, str], demo_server: ServerProcess) -> None:
    done = run(environment, "launch", "claude", "--url", demo_server.url)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "no model suffices for claude" in done.stderr
    assert "mlxctl-demo: context of" in done.stderr


def test_dry_run_starts_no_server(environment: dict[str, str]) -> None:
    environment["MLXCTL_SERVER_PORT"] = str(free_port())
    done = run(environment, "launch", "codex", "--model", "some-model", "--dry-run")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "a dry run starts none; start it with: mlxctl serve some-model" in done.stderr


def test_without_a_server_at_the_given_url_none_is_started(environment: dict[str, str]) -> None:
    done = run(environment, "launch", "claude", "--url", "http://127.0.0.1:1")
    assert done.exit_code == 1
    assert "no server answers at http://127.0.0.1:1" in done.stderr


class _OtherProgram(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.recv(65_536)
        self.request.sendall(b"SSH-2.0-OpenSSH_9.9\r\n")


def test_a_program_that_is_no_server_takes_the_address() -> None:
    with running(socketserver.ThreadingTCPServer(("127.0.0.1", 0), _OtherProgram)) as program:
        url = f"http://127.0.0.1:{program.server_address[1]}"
        with pytest.raises(ClientNotReady, match="lists no models; stop it, or set MLXCTL_SERVER_PORT"):
            list_models(url, None)


@pytest.mark.parametrize("status", [404, 503])
def test_a_server_without_models_is_not_taken_for_a_missing_one(status: int) -> None:
    with hostile(status) as server, pytest.raises(ClientNotReady, match="lists no models"):
        list_models(server.url, None)


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:99999"])
def test_an_invalid_url_is_named(environment: dict[str, str], url: str) -> None:
    done = run(environment, "launch", "claude", "--url", url)
    assert (done.exit_code, done.stderr) == (
        2,
        f"mlxctl: {url!r} is not a server URL; write http://HOST:PORT\n",
    )


def test_a_server_is_started_in_the_background_and_the_client_gets_its_model(
    environment: dict[str, str],
) -> None:
    port = free_port()
    environment["MLXCTL_SERVER_PORT"] = str(port)
    model = tiny_models.model("qwen3")
    done = launch(environment, "codex", "--model", str(model), "--", "exec", "hello")
    pid = int(done.stderr.split("(pid ")[1].split(",")[0])
    try:
        assert done.returncode == 0, done.stderr
        assert done.stdout.rstrip().endswith("exec hello")
        assert f"127.0.0.1:{port}/v1" in done.stdout
        assert [each.name for each in list_models(f"http://127.0.0.1:{port}", None)] == [model.name]
        # The same command again, now with a server that has the model under its name.
        again = launch(environment, "codex", "--model", str(model))
        assert f"codex with {model.name} at http://127.0.0.1:{port}" in again.stderr
        # Nothing is started, so the client need not be installed.
        dry = launch(environment, "opencode", "--dry-run")
        assert (dry.returncode, dry.stderr) == (0, "")
        assert dry.stdout.splitlines()[-1].startswith("opencode")
        assert f"`mlxctl launch` started a server, pid {pid}" in run(environment, "service", "status").stdout
        stopped = run(environment, "service", "stop")
        assert f"stopped the server that `mlxctl launch` started, pid {pid}" in stopped.stdout
        assert not answers(port)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


def test_a_process_that_has_the_id_of_an_ended_server_is_not_taken_for_it(
    environment: dict[str, str], tmp_path: Path
) -> None:
    state = tmp_path / ".local" / "state" / "mlxctl"
    state.mkdir(parents=True)
    (state / "serve.pid").write_text(str(os.getpid()))
    assert "pid" not in run(environment, "service", "status").stdout
    assert "not installed" in run(environment, "service", "stop").stderr


def test_a_server_that_was_started_for_a_model_that_does_not_suffice_is_stopped(
    environment: dict[str, str],
) -> None:
    port = free_port()
    environment["MLXCTL_SERVER_PORT"] = str(port)
    environment["MLXCTL_MODEL_PATH"] = "demo"
    done = launch(environment, "claude")
    assert done.returncode == 1
    assert "mlxctl-demo: context of 8,192 tokens" in done.stderr
    wait_for(lambda: not answers(port), seconds=20)


def test_a_server_without_the_model_names_the_way_to_it(
    environment: dict[str, str], demo_server: ServerProcess
) -> None:
    done = run(environment, "launch", "claude", "--url", demo_server.url, "--model", "org/other")
    assert done.exit_code == 1
    assert "has no model 'org/other'; it has mlxctl-demo" in done.stderr
    assert "mlxctl serve org/other --port" in done.stderr


def answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_a_server_that_cannot_start_gives_its_reason(environment: dict[str, str]) -> None:
    environment["MLXCTL_SERVER_PORT"] = str(free_port())
    environment["MLXCTL_ENGINE_MEMORY_LIMIT_BYTES"] = "1000"
    done = launch(environment, "codex", "--model", str(tiny_models.model("qwen3")))
    assert done.returncode == 1
    assert "the server ended at its start" in done.stderr
    assert "raise --memory-limit" in done.stderr


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("demo", "demo does not suffice for claude: context of 8,192 tokens; claude needs 44,000"),
        ("no-such-model", "no model directory at 'no-such-model'"),
    ],
)
def test_a_named_model_is_checked_before_a_server_loads_it(
    environment: dict[str, str], model: str, reason: str
) -> None:
    environment["MLXCTL_SERVER_PORT"] = str(free_port())
    done = run(environment, "launch", "claude", "--model", model)
    assert (done.exit_code, done.stdout) == (1, "")
    assert reason in done.stderr
    assert "starting mlxctl serve" not in done.stderr
