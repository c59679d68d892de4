"""A shell command with limits on time and output. Event-loop thread only."""

import asyncio
import os
import re
import secrets
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mlxctl.chat.tools.child_output import ChildOutput
from mlxctl.chat.tools.command_processes import MARK, end_processes, supervised

SHELL_SECONDS = 120.0

# The end of a long output usually has the error.
_FIRST_BYTES = 4_000
_LAST_BYTES = 16_000
# How long output is awaited after the end of the command.
_DRAIN_SECONDS = 1.0
# The supervisor needs up to four seconds where it cannot end a process.
_END_SECONDS = 5.0
# SEC: variables of other names may be keys and tokens, which are not the command's business. Sockets of
# agents and of the session are left out, too.
_VARIABLES = re.compile(
    "HOME|LANG|LANGUAGE|LC_.*|LOGNAME|PATH|SHELL|TERM|TMPDIR|TZ|USER|SSL_CERT_(DIR|FILE)"
    "|XDG_(CACHE|CONFIG|DATA|STATE)_HOME"
    "|(CARGO|JAVA|RUSTUP)_HOME|CONDA_PREFIX|GOPATH|NVM_DIR|PYENV_ROOT|VIRTUAL_ENV"
    "|CC|CXX|(C|CPP|CXX|LD)FLAGS|LD_LIBRARY_PATH|PKG_CONFIG_PATH"
    "|DEVELOPER_DIR|MACOSX_DEPLOYMENT_TARGET|SDKROOT"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """Output and exit code of a command as text for the model."""

    text: str
    is_success: bool


async def run_command(command: str, directory: Path, *, seconds: float) -> CommandResult:
    """Run a command with /bin/sh in `directory`, without input.

    After `seconds`, at a cancellation, at its end and at the end of this process, the command and the
    processes that it started are killed, as far as `command_processes` finds them. Raises OSError when the
    directory is gone.
    """
    mark = secrets.token_hex(16)
    with ChildOutput(num_first=_FIRST_BYTES, num_last=_LAST_BYTES) as output:
        process = await asyncio.create_subprocess_exec(
            *supervised("/bin/sh", "-c", command),
            cwd=directory,
            env={**command_environment(os.environ), MARK: mark},
            # The supervisor reads it; the command has no input.
            stdin=asyncio.subprocess.PIPE,
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
            await _end(process, mark)
        await output.wait_closed(seconds=_DRAIN_SECONDS)
    text = "\n".join(filter(None, (output.text.rstrip("\n"), end)))
    return CommandResult(text=text or "[no output]", is_success=not end)


def command_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a command gets."""
    return {name: value for name, value in environment.items() if _VARIABLES.fullmatch(name)}


async def _end(process: asyncio.subprocess.Process, mark: str) -> None:
    """End the command by its supervisor, or here if that is gone."""
    assert process.stdin is not None, "it is a pipe"
    process.stdin.close()
    # NOTE: asyncio.timeout of Python 3.11.2 raises CancelledError in a task that was cancelled before.
    ending = asyncio.ensure_future(process.wait())
    await asyncio.wait({ending}, timeout=_END_SECONDS)
    if process.returncode is None or process.returncode < 0:
        # The command has stopped or killed its supervisor.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.to_thread(end_processes, mark, session=process.pid)
    await ending
