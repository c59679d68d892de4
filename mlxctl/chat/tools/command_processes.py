"""The processes of one command, which end with it.

`python -I -S command_processes.py PROGRAM [ARGUMENT ...]` starts a program and stays as its supervisor. When
the program ends, or standard input is closed, every process that came from it is killed. The exit status is
the program's, 128 + N for signal N. Needs MARK in the environment; uses the standard library only.
"""

import ctypes
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MARK = "MLXCTL_TOOL_CALL"
"""Variable with a random value, by which the processes of a call are found."""

# Processes may start others while they are killed, so they are looked for until none is found.
_END_SECONDS = 2.0
_PAUSE_SECONDS = 0.01
_MAX_COLLECTED = 1000
# Linux's <linux/prctl.h>.
_PR_SET_CHILD_SUBREAPER = 36
_PS = ("/bin/ps", "-A", "-E", "-ww", "-o", "pid=,ppid=,pgid=,stat=,command=")
_PS_LINE = re.compile(r"\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s(.*)")


class FoundProcess(NamedTuple):
    """A running process; `is_marked` if it has the mark of a call."""

    pid: int
    parent: int
    group: int
    is_marked: bool


def supervised(*command: str) -> tuple[str, ...]:
    """Return the command line that runs a command below a supervisor."""
    return (sys.executable, "-I", "-S", __file__, *command)


def end_processes(value: str, *, session: int) -> list[int]:
    """Kill the processes of a call; return those that remain.

    They are in its session, have `value` as their mark, or descend from these; this process is left out.
    Blocks for two seconds at most.
    """
    deadline = time.monotonic() + _END_SECONDS
    while (found := _find(value, session)) and time.monotonic() < deadline:
        # A process cannot escape a signal to its group by starting another one.
        for group in {process.group for process in found} - {os.getpgrp()}:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        for process in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)
        time.sleep(_PAUSE_SECONDS)
    return sorted(process.pid for process in found)


def _find(value: str, session: int) -> list[FoundProcess]:
    mark = f"{MARK}={value}"
    processes = list(_processes_of_proc(mark.encode()) if sys.platform == "linux" else _processes_of_ps(mark))
    found = {process.pid for process in processes if process.is_marked or _is_in(session, process.pid)}
    size = -1
    while size != len(found):
        size = len(found)
        found.update(process.pid for process in processes if process.parent in found)
    return [process for process in processes if process.pid in found - {os.getpid()}]


def _is_in(session: int, pid: int) -> bool:
    try:
        return os.getsid(pid) == session
    except OSError:
        return False


def _processes_of_proc(mark: bytes) -> Iterator[FoundProcess]:
    """Yield all processes; the environment of another user's is unknown."""
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            # The name before the last parenthesis may have any characters.
            state, parent, group = (directory / "stat").read_bytes().rpartition(b")")[2].split()[:3]
            variables: list[bytes] = []
            with suppress(OSError):
                variables = (directory / "environ").read_bytes().split(b"\0")
            if state not in (b"Z", b"X"):
                yield FoundProcess(int(directory.name), int(parent), int(group), mark in variables)


def _processes_of_ps(mark: str) -> Iterator[FoundProcess]:
    with subprocess.Popen(_PS, stdout=subprocess.PIPE, text=True, errors="replace") as ps:  # noqa: S603
        for process in read_ps(ps.communicate()[0], mark):
            if process.pid != ps.pid:
                yield process


def read_ps(text: str, mark: str) -> Iterator[FoundProcess]:
    """Yield the processes in the output of macOS `ps -E`."""
    for found in map(_PS_LINE.match, text.splitlines()):
        if found is not None and not found[4].startswith("Z"):
            yield FoundProcess(int(found[1]), int(found[2]), int(found[3]), mark in found[5].split(" "))


def _supervise(program: str, *arguments: str) -> int:
    """Run a program, end what it started, and return its exit status."""
    if sys.platform == "linux":
        # Processes whose parent has ended become children of this one, so each can be found by its parents.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    child = os.posix_spawn(
        program,
        (program, *arguments),
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)],
        # A separate group, so that `kill 0` in a shell is not for the supervisor.
        setpgroup=0,
        # Python ignores them, which the program would inherit.
        setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
    )
    code = None
    while code is None:
        ready, _, _ = select.select([0, reader], [], [])
        if 0 in ready:
            break
        os.read(reader, 4096)
        code = _exit_codes().get(child)
    # A process that starts others may be missed; one of another user may be invisible.
    deadline = time.monotonic() + _END_SECONDS
    while not (remaining := end_processes(os.environ[MARK], session=os.getsid(0))):
        if not _has_children() or time.monotonic() > deadline:
            break
        time.sleep(_PAUSE_SECONDS)
    if remaining:
        os.write(2, f"[not ended: process {', '.join(map(str, remaining))}]\n".encode())
    return 1 if code is None else code if code >= 0 else 128 - code


def _exit_codes() -> dict[int, int]:
    """Return exit codes of ended children, negative for a signal."""
    codes = {}
    with suppress(ChildProcessError):
        # They may end as fast as they are collected.
        for _ in range(_MAX_COLLECTED):
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            codes[pid] = os.waitstatus_to_exitcode(status)
    return codes


def _has_children() -> bool:
    """Whether a child runs; those that have ended are collected."""
    _exit_codes()
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(_supervise(*sys.argv[1:]))
