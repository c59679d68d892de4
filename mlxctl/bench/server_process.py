"""`mlxctl serve` in a child process with a temporary state directory."""

import asyncio
import contextlib
import os
import re
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from mlxctl.ir.errors import EngineDied, SettingsError
from mlxctl.state.log_format import find_reason

_START_SECONDS = 600.0
_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.05
_LISTENING = re.compile(rb"mlxctl \S+ on (http://\S+)")


class ServerSubprocess:
    """One server at a time, restarted with the same arguments and state.

    Event-loop thread only.
    """

    def __init__(self, arguments: Sequence[str], *, environment: Mapping[str, str] = os.environ) -> None:
        """`arguments` are options of `mlxctl serve`.

        The XDG directories in `environment` are replaced by temporary ones.
        """
        self._arguments = tuple(arguments)
        self._environment = environment
        self._state = tempfile.TemporaryDirectory(prefix="mlxctl-")
        self._process: asyncio.subprocess.Process | None = None
        self._errors = Path(self._state.name) / "stderr"

    async def start(self) -> str:
        """Start the server and return its URL when it is ready.

        Raises SettingsError with the server's error message when it exits.
        """
        directories = {
            f"XDG_{kind}_HOME": str(Path(self._state.name) / kind.lower())
            for kind in ("STATE", "CACHE", "DATA")
        }
        with self._errors.open("wb") as errors:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "mlxctl", "serve", "--host", "127.0.0.1", "--port", "0",
                *self._arguments,
                # A server with a JSON log does not print its address.
                "--log-format", "text",
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=errors,
                # Stored keys are not in the temporary state directory.
                env={**self._environment, **directories, "MLXCTL_SERVER_REQUIRE_KEYS": "false"},
                # Ctrl-C goes to the benchmark only, which saves its rounds and stops the server gracefully.
                start_new_session=True,
            )  # fmt: skip
        async with asyncio.timeout(_START_SECONDS):
            url = await self._read_url(self._process)
            await self._wait_ready(self._process, url)
        return url

    async def restart(self) -> str:
        """Stop it gracefully and start it again."""
        await self.stop()
        return await self.start()

    async def stop(self) -> None:
        """Stop the process; kill it after a timeout."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_SECONDS):
                    await process.communicate()
        finally:
            # Also when the wait was cancelled.
            if process.returncode is None:
                process.kill()

    async def close(self) -> None:
        """Stop it and delete its state."""
        await self.stop()
        self._state.cleanup()

    async def _read_url(self, process: asyncio.subprocess.Process) -> str:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            if match := _LISTENING.search(line):
                return match[1].decode()
        raise await self._ended(process)

    async def _wait_ready(self, process: asyncio.subprocess.Process, url: str) -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            while process.returncode is None:
                # A stopping server refuses connections before its process exits.
                with contextlib.suppress(httpx.TransportError):
                    if (await client.get(f"{url}/readyz")).status_code == 200:
                        return
                await asyncio.sleep(_POLL_SECONDS)
        raise await self._ended(process)

    async def _ended(self, process: asyncio.subprocess.Process) -> Exception:
        await process.wait()
        reason = find_reason(self._errors.read_text(errors="replace"))
        if reason is None:
            return EngineDied(f"the server ended with exit code {process.returncode} and gave no reason")
        return SettingsError(reason)
