"""Compared servers as child processes on loopback ports, with equal BLAS."""

import contextlib
import ctypes
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_OPENBLAS = "libopenblas.so.0"
_START_SECONDS = 240
_MODEL_NAME = "default_model"


@dataclass
class Server:
    """A running server and the name under which it serves the model.

    `seconds_to_live` lasts from start to the first response.
    """

    name: str
    port: int
    process: subprocess.Popen[bytes]
    seconds_to_live: float
    model: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def cpu_seconds(self) -> float:
        """CPU time of the server's processes so far, from /proc."""
        ticks = sum(_ticks(pid) for pid in process_tree(self.process.pid))
        return ticks / os.sysconf("SC_CLK_TCK")


def process_tree(pid: int) -> list[int]:
    """Return the process and its descendants, from /proc."""
    children: list[int] = []
    # A process may end meanwhile.
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            children += map(int, (task / "children").read_text().split())
    return [pid, *(descendant for child in children for descendant in process_tree(child))]


def _ticks(pid: int) -> int:
    """Return user and system time, also of ended children."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(field) for field in fields[11:15])


def blas_environment() -> dict[str, str]:
    """Return an environment with the BLAS that the engine uses."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": str(max(1, (os.cpu_count() or 2) // 2))}
    # Found by its name, as the engine finds it: with another BLAS a server would be ten times slower.
    with contextlib.suppress(OSError):
        ctypes.CDLL(_OPENBLAS)
        environment["LD_PRELOAD"] = _OPENBLAS
    return environment


def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def installed_environment() -> dict[str, str]:
    """Return this environment with bytecode caching enabled, as installed by pip."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@contextmanager
def mlxctl_server(
    model: Path,
    *,
    cache_directory: Path | None = None,
    config: Path | None = None,
    state_directory: Path | None = None,
) -> Iterator[Server]:
    """Run `mlxctl serve` with empty or the given directories."""
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "mlxctl",
        "serve",
        "--model",
        str(model),
        "--name",
        _MODEL_NAME,
        "--port",
        str(port),
    ]
    with tempfile.TemporaryDirectory() as scratch:
        command += ["--cache-dir", str(cache_directory or scratch)]
        environment = installed_environment() | {"XDG_STATE_HOME": str(state_directory or scratch)}
        command += ["--config", str(config)] if config is not None else []
        yield from _running("mlxctl", command, port, live="/livez", ready="/readyz", environment=environment)


@contextmanager
def mlx_lm_server(model: Path) -> Iterator[Server]:
    """Yield a running `mlx_lm.server`."""
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "mlx_lm",
        "server",
        "--model",
        str(model),
        "--port",
        str(port),
        "--log-level",
        "ERROR",
    ]
    environment = blas_environment()
    # It lists the model by its path.
    yield from _running(
        "mlx_lm.server",
        command,
        port,
        live="/health",
        ready="/health",
        environment=environment,
        model=str(model),
    )


@contextmanager
def rapid_mlx_server(model: Path, *, program: str) -> Iterator[Server]:
    """Yield a running server of rapid-mlx, installed as `program`."""
    port = free_port()
    command = [program, "serve", str(model), "--served-model-name", _MODEL_NAME, "--port", str(port)]
    environment = blas_environment() | {"HF_HUB_OFFLINE": "1"}
    yield from _running(
        "rapid-mlx", command, port, live="/health", ready="/v1/models", environment=environment
    )


def _running(
    name: str,
    command: list[str],
    port: int,
    *,
    live: str,
    ready: str,
    environment: dict[str, str],
    model: str = _MODEL_NAME,
) -> Iterator[Server]:
    started = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(f"http://127.0.0.1:{port}{live}", process)
        seconds_to_live = time.perf_counter() - started
        _wait_for(f"http://127.0.0.1:{port}{ready}", process)
        yield Server(name, port, process, seconds_to_live, model)
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}")
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.01)
    raise TimeoutError(url)
