"""A shell command with limits on time and output. Event-loop thread only."""

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

SHELL_SECONDS = 120.0

# The end of a long output usually has the error.
_FIRST_BYTES = 4_000
_LAST_BYTES = 16_000
_CHUNK_BYTES = 65_536
# How long output is awaited after the end of the command.
_DRAIN_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """Output and exit code of a command as text for the model."""

    text: str
    is_success: bool


async def run_command(command: str, directory: Path, *, seconds: float) -> CommandResult:
    """Run a command with /bin/sh in `directory`, without input.

    After `seconds`, at a cancellation, and at its end, the command and the processes that it started are
    killed. Raises OSError when the directory is gone.
    """
    with _OutputPipe() as output:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            command,
            cwd=directory,
            # SEC: keys of mlxctl's servers are not the command's business.
            env={name: value for name, value in os.environ.items() if not name.startswith("MLXCTL_")},
            stdin=asyncio.subprocess.DEVNULL,
            # Not a pipe of asyncio, whose `wait` awaits background processes that keep it open.
            stdout=output.writer,
            stderr=output.writer,
            # A group of its own, which can be killed whole, and no access to the chat's terminal.
            start_new_session=True,
        )
        end = ""
        try:
            async with asyncio.timeout(seconds):
                code = await process.wait()
        except TimeoutError:
            end = f"[stopped after {seconds:g} seconds]"
        else:
            end = f"[exit code {code}]" if code else ""
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        await output.wait_closed()
    text = "\n".join(filter(None, (output.text.rstrip("\n"), end)))
    return CommandResult(text=text or "[no output]", is_success=not end)


class _OutputPipe:
    """A pipe that keeps its first and last bytes.

    `writer` is the end for the child.
    """

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._closed = asyncio.Event()
        self._first = b""
        self._last = b""
        self._num_left_out = 0

    def __enter__(self) -> Self:
        asyncio.get_running_loop().add_reader(self._reader, self._read)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._reader)
        os.close(self._reader)
        self._close_writer()

    async def wait_closed(self) -> None:
        """Wait a moment until no process has the pipe open."""
        self._close_writer()
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                await self._closed.wait()

    @property
    def text(self) -> str:
        if not self._num_left_out:
            return (self._first + self._last).decode(errors="replace")
        first, last = (part.decode(errors="replace") for part in (self._first, self._last))
        return f"{first}\n[{self._num_left_out:,} bytes left out]\n{last}"

    def _close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def _read(self) -> None:
        data = os.read(self._reader, _CHUNK_BYTES)
        if not data:
            self._closed.set()
            asyncio.get_running_loop().remove_reader(self._reader)
        room = _FIRST_BYTES - len(self._first)
        self._first += data[:room]
        last = self._last + data[room:]
        self._last = last[-_LAST_BYTES:]
        self._num_left_out += len(last) - len(self._last)
