"""A real `mlxctl serve` in an own process, on a free port."""

import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import httpx

END_SECONDS = 60.0
"""Longest time that the end of a server may take on a busy machine."""
# Reading the system's authorities takes longer than most requests.
_TLS = ssl.create_default_context()


class ServerProcess:
    """One running server; `url` is where it answers."""

    def __init__(
        self, *arguments: str, environment: dict[str, str] | None = None, python: str = sys.executable
    ) -> None:
        self._state = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            [python, "-m", "mlxctl", "serve", "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "XDG_STATE_HOME": self._state.name,
                "XDG_CACHE_HOME": self._state.name,
                **(environment or {}),
            },
        )
        self.lines: list[str] = []
        # A JSON log has the address; otherwise standard output has it.
        output = self.process.stderr if "json" in arguments else self.process.stdout
        self.url = self._read_until(r'mlxctl \S+ on (https?://[^\s"]+)', output)

    def wait_ready(self, *, seconds: float = 60.0) -> None:
        """Wait until requests are accepted and no model is missing."""
        with httpx.Client(base_url=self.url, verify=_TLS) as client:
            # Each look costs both processes CPU time, and a start takes seconds.
            wait_for(lambda: self._is_ready(client), seconds=seconds, pause_seconds=0.1)

    def engine_pid(self) -> int:
        """Return the process id of the running engine."""
        pid = self.health()["engine"]["pid"]
        assert isinstance(pid, int)
        return pid

    def health(self) -> dict[str, Any]:
        """Return the answer of /health."""
        facts: dict[str, Any] = httpx.get(f"{self.url}/health", verify=_TLS).json()
        return facts

    def stop(self, signal_number: int = signal.SIGTERM) -> int:
        """Ask it to stop and return its exit code."""
        self.process.send_signal(signal_number)
        return self.process.wait(timeout=END_SECONDS)

    def kill(self) -> None:
        """End the process and close its pipes."""
        self.process.kill()
        self.process.communicate(timeout=END_SECONDS)
        self._state.cleanup()

    def _is_ready(self, client: httpx.Client) -> bool:
        assert self.process.poll() is None, "the server ended before it was ready"
        try:
            is_ready = client.get("/readyz").status_code == 200
            return is_ready and client.get("/health").json()["status"] == "ok"
        except httpx.ConnectError:
            return False

    def _read_until(self, pattern: str, output: IO[str] | None) -> str:
        assert output is not None
        for line in output:
            self.lines.append(line.rstrip("\n"))
            if match := re.search(pattern, line):
                return match[1]
        raise AssertionError(f"the server ended early: {self.process.communicate()[1]}")


@contextmanager
def serving(model: Path | None, *arguments: str, **environment: str) -> Iterator[ServerProcess]:
    """Yield a ready server for `model` (None: the demo model).

    It is stopped at the end.
    """
    named = ["--model", str(model), "--name", "tiny"] if model else []
    server = ServerProcess(*named, *arguments, environment=environment)
    try:
        server.wait_ready()
        yield server
    finally:
        server.kill()


def is_alive(pid: int) -> bool:
    """Whether a process runs under `pid`.

    On Linux, a zombie does not count.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    if sys.platform != "linux":
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for(condition: Any, *, seconds: float, pause_seconds: float = 0.01) -> float:
    """Wait until `condition()` holds and return how long that took.

    Fails after `seconds`.
    """
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < seconds, "it did not happen in time"
        time.sleep(pause_seconds)
    return time.monotonic() - started
