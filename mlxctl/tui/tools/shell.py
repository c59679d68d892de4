"""A shell command with limits on time and output. Event-loop thread only."""

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mlxctl.tui.tools.child_output import ChildOutput

SHELL_SECONDS = 120.0

# The end of a long output usually has the error.
_FIRST_BYTES = 4_000
_LAST_BYTES = 16_000
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
    with ChildOutput(num_first=_FIRST_BYTES, num_last=_LAST_BYTES) as output:
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
            # A separate session: it can be killed whole, and has no access to the chat's terminal.
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
        await output.wait_closed(seconds=_DRAIN_SECONDS)
    text = "\n".join(filter(None, (output.text.rstrip("\n"), end)))
    return CommandResult(text=text or "[no output]", is_success=not end)
