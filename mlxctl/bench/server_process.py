"""A server of our own as a child process: `mlxctl serve` on a free port, with files of its own, so that
nothing is warm.
"""

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

from mlxctl.errors import EngineDied, SettingsError

_START_SECONDS = 600.0
_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.05
_REASON = re.compile(r"[\w.]+(Error|Exception): ")
_LISTENING = re.compile(rb"mlxctl \S+ on (http://\S+)")


class ServerSubprocess:
    """One server after the other, all with the same arguments and the same state. Event-loop thread only."""

    def __init__(self, arguments: Sequence[str], *, environment: Mapping[str, str] = os.environ) -> None:
        """Take the options of `mlxctl serve`, and the environment, which decides all but where the server
        keeps its files.
        """
        self._arguments = tuple(arguments)
        self._environment = environment
        self._state = tempfile.TemporaryDirectory(prefix="mlxctl-")
        self._process: asyncio.subprocess.Process | None = None
        self._errors = Path(self._state.name) / "stderr"

    async def start(self) -> str:
        """Start it and return its URL when it takes requests.

        Raises SettingsError with the server's own words when it ends.
        """
        directories = {
            f"XDG_{kind}_HOME": str(Path(self._state.name) / kind.lower())
            for kind in ("STATE", "CACHE", "DATA")
        }
        with self._errors.open("wb") as errors:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "mlxctl", "serve", "--port", "0", *self._arguments,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=errors,
                env={**self._environment, **directories},
                # Ctrl-C is for the bench, which still has to keep what it measured and to end the server in
                # order.
                start_new_session=True,
            )  # fmt: skip
        async with asyncio.timeout(_START_SECONDS):
            url = await self._read_url(self._process)
            await self._wait_ready(self._process, url)
        return url

    async def restart(self) -> str:
        """Stop it in an orderly way and start it again."""
        await self.stop()
        return await self.start()

    async def stop(self) -> None:
        """End the process, by force if it does not end by itself."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_SECONDS):
                    await process.communicate()
        finally:
            # Also when a person is too impatient to wait for an orderly end.
            if process.returncode is None:
                process.kill()

    async def close(self) -> None:
        """Stop it and remove its state."""
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
                # A server that ends refuses connections a moment before its process is gone.
                with contextlib.suppress(httpx.TransportError):
                    if (await client.get(f"{url}/readyz")).status_code == 200:
                        return
                await asyncio.sleep(_POLL_SECONDS)
        raise await self._ended(process)

    async def _ended(self, process: asyncio.subprocess.Process) -> Exception:
        await process.wait()
        lines = self._errors.read_text(errors="replace").strip().splitlines()
        if not lines:
            return EngineDied(f"the server ended with exit code {process.returncode} and gave no reason")
        # What a native library prints of its own end comes after the reason.
        reasons = [line for line in lines if line.startswith("mlxctl: ") or _REASON.match(line)]
        return SettingsError((reasons or lines)[-1].removeprefix("mlxctl: "))
