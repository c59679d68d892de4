"""A child process whose exit status is never lost. Event-loop thread only."""

import asyncio
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress

_HINTS = {
    signal.SIGKILL: "unless sent on purpose, the system ran out of memory: lower --memory-limit,"
    " or close other programs",
    signal.SIGABRT: "a native library aborted, often because the GPU was out of memory: lower --memory-limit",
}


class ChildProcess:
    """Runs a command without input and output; its stderr is ours.

    NOTE: asyncio's subprocess may lose the exit status: its `kill` can collect it before its watcher does
    ("Unknown child process pid").
    """

    def __init__(self, command: Sequence[str], *, environment: Mapping[str, str] | None = None) -> None:
        _restore_sigchld()
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._process = start_child(command, environment=environment)
        self.pid = self._process.pid
        threading.Thread(target=self._wait, name="engine-exit", daemon=True).start()

    @property
    def exit_status(self) -> int | None:
        """Exit status, negative for a signal; None while it runs."""
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        """Wait for the end and return the exit status.

        Negative for a signal.
        """
        return await asyncio.shield(self._ended)

    async def ends_within(self, seconds: float) -> bool:
        """Wait up to `seconds`, and return whether it has ended.

        NOTE: asyncio.timeout of Python 3.11.2 raises CancelledError in a task that was cancelled before.
        """
        ended, _ = await asyncio.wait({self._ended}, timeout=seconds)
        return bool(ended)

    def kill(self) -> None:
        """Kill it, if it still runs."""
        self._process.kill()

    def _wait(self) -> None:
        status = self._process.wait()
        with suppress(RuntimeError):
            # The event loop may be closed by now.
            self._loop.call_soon_threadsafe(self._note_end, status)

    def _note_end(self, status: int) -> None:
        if not self._ended.done():
            self._ended.set_result(status)


def start_child(
    command: Sequence[str], *, pass_fds: Sequence[int] = (), environment: Mapping[str, str] | None = None
) -> "subprocess.Popen[bytes]":
    """Start a child process without stdin and stdout, which ignores SIGINT.

    The terminal sends Ctrl-C to the whole process group, also before the child can ignore signals itself.
    """
    # The child inherits the mask. Ignoring the signal here meanwhile would lose a Ctrl-C for this process.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(  # noqa: S603 -- our own
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=pass_fds,
            env=environment,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def describe_exit(status: int) -> str:
    """Return a process's end in words, for the log."""
    if status >= 0:
        return f"exit status {status}"
    try:
        number = signal.Signals(-status)
    except ValueError:
        return f"killed by signal {-status}"
    hint = _HINTS.get(number)
    return f"killed by signal {-status} ({number.name}){f'; {hint}' if hint else ''}"


def _restore_sigchld() -> None:
    """Restore the default handling of SIGCHLD.

    While it is ignored, the system keeps no exit status.
    """
    if (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
    ):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
