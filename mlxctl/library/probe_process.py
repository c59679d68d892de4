"""Probes beside a running server, each as an `mlxctl probe` process."""

import os
import subprocess
import sys
import threading
from pathlib import Path

MAX_PROBE_SECONDS = 3600.0


class ProbeProcess:
    """Probes one model at a time. Any thread.

    The process has a separate engine, so that requests of the server continue. It stores the results.
    """

    def __init__(self, *, memory_limit_bytes: int | None = None) -> None:
        """`memory_limit_bytes` is that of the process' engine."""
        self._environment = dict(os.environ)
        if memory_limit_bytes is not None:
            self._environment["MLXCTL_ENGINE_MEMORY_LIMIT_BYTES"] = str(memory_limit_bytes)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._is_closed = False

    def run(self, model: Path, *, trust_remote_code: bool = False) -> str | None:
        """Probe the model in this directory; return a one-line error, or None."""
        command = [sys.executable, "-m", "mlxctl", "probe", "--json", str(model)]
        if trust_remote_code:
            command.append("--trust-remote-code")
        with self._lock:
            if self._is_closed:
                return "the server is shutting down"
            try:
                process = self._process = subprocess.Popen(  # noqa: S603 -- our own command
                    command,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                    # A Ctrl-C in the server's terminal is for the server.
                    start_new_session=True,
                )
            except OSError as error:
                return f"the probe cannot be started: {error.strerror}"
        try:
            _, log = process.communicate(timeout=MAX_PROBE_SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.communicate()
            return f"probing took more than {MAX_PROBE_SECONDS:.0f} s"
        if process.returncode == 0:
            return None
        lines = [line for line in log.splitlines() if line.startswith("mlxctl: ")]
        return lines[-1].removeprefix("mlxctl: ") if lines else f"probing ended with {process.returncode}"

    def stop(self) -> None:
        """End the running probe."""
        with self._lock:
            process = self._process
        if process is not None and process.poll() is None:
            process.terminate()

    def close(self) -> None:
        """End the running probe; no further one starts."""
        with self._lock:
            self._is_closed = True
        self.stop()
