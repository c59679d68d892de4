"""Runs the engine in a child process, or in a thread.

Front side; no MLX.
"""

import asyncio
import os
import secrets
import socket
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from mlxctl.engine.client.child_process import ChildProcess, describe_exit
from mlxctl.ir.errors import EngineDied
from mlxctl.state import locations
from mlxctl.state.log_format import LogFormat
from mlxctl.state.settings import EngineSettings

_CONNECT_SECONDS = 60.0


class Launcher(Protocol):
    """Starts an engine and ends it."""

    async def launch(self) -> socket.socket:
        """Start an engine and return the connected socket to it.

        Raises EngineDied when it does not come up.
        """

    async def end(self, *, grace_seconds: float) -> str | None:
        """Wait up to `grace_seconds` for the engine to end, then kill it.

        Returns how it ended, for the log; None when none ran, or that is unknown.
        """


class EngineProcess:
    """The engine in a child process, reached through a Unix socket.

    The socket has mode 0600. The socket's file is removed once both ends are connected.
    """

    def __init__(self, settings: EngineSettings, *, log_format: LogFormat = "text") -> None:
        self._settings = settings
        self._log_format = log_format
        self._process: ChildProcess | None = None

    async def launch(self) -> socket.socket:
        """Start the process and wait until it has connected."""
        return await self.launch_rank_0("", None)

    async def launch_rank_0(self, hosts: str, environment: Mapping[str, str] | None) -> socket.socket:
        """Start the process as rank 0; without `hosts` it is alone."""
        path = locations.runtime_directory() / f"engine-{os.getpid()}-{secrets.token_hex(4)}.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            try:
                self._listen(listener, path)
                settings = msgspec.json.encode(self._settings, enc_hook=str).decode()
                self._process = ChildProcess(
                    [
                        sys.executable,
                        "-m",
                        "mlxctl.engine.process",
                        str(path),
                        settings,
                        self._log_format,
                        hosts,
                    ],
                    environment=environment,
                )
                return await self._accept(listener, self._process)
            finally:
                path.unlink(missing_ok=True)

    async def end(self, *, grace_seconds: float) -> str | None:
        """Wait for the process.

        Kill it if it does not end in time.
        """
        process = self._process
        if process is None:
            return None
        had_ended = await process.ends_within(grace_seconds)
        if not had_ended:
            process.kill()
        status = await process.wait()
        if self._process is process:
            self._process = None
        how = describe_exit(status) if had_ended else "it did not end by itself and was killed"
        return f"process {process.pid}: {how}"

    @staticmethod
    def _listen(listener: socket.socket, path: Path) -> None:
        # SEC: the directory is owner-only already; the mask keeps the socket so from its first moment.
        previous = os.umask(0o177)
        try:
            listener.bind(str(path))
        except OSError as error:
            raise EngineDied(f"cannot create the engine's socket {str(path)!r}: {error}") from error
        finally:
            os.umask(previous)
        listener.listen(1)
        listener.setblocking(False)

    @staticmethod
    async def _accept(listener: socket.socket, process: ChildProcess) -> socket.socket:
        accept = asyncio.ensure_future(asyncio.get_running_loop().sock_accept(listener))
        ended = asyncio.ensure_future(process.wait())
        try:
            await asyncio.wait({accept, ended}, timeout=_CONNECT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not accept.done():
                status = process.exit_status
                reason = (
                    f"it did not connect within {_CONNECT_SECONDS:g} s"
                    if status is None
                    else describe_exit(status)
                )
                raise EngineDied(f"the engine process did not start: {reason}")
            connection, _ = accept.result()
            return connection
        finally:
            accept.cancel()
            ended.cancel()


class InlineEngine:
    """The engine in a thread of this process.

    For tests and one-shot commands.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._thread: threading.Thread | None = None

    async def launch(self) -> socket.socket:
        """Start the engine's thread and return the front's socket."""
        from mlxctl.engine.process import run_engine

        ours, theirs = socket.socketpair()
        self._thread = threading.Thread(
            target=run_engine, args=(theirs, self._settings), name="mlx", daemon=True
        )
        self._thread.start()
        return ours

    async def end(self, *, grace_seconds: float) -> str | None:
        """Wait for the thread.

        It cannot be killed, and ends with its socket.
        """
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, grace_seconds)
            self._thread = None
        return None
