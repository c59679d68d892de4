"""Commands of the shell tool: they end whole, and get no secrets."""

import asyncio
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mlxctl.chat.tools.command_processes import FoundProcess, read_ps
from mlxctl.chat.tools.shell import run_command
from tests.server.process import is_alive, wait_for

SECONDS = 60.0
# A daemon as of Stevens: two forks and a new session. It keeps its variables.
DAEMON = (
    "import os, time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0)\n"
    "open('child', 'w').write(str(os.getpid())); time.sleep(600)"
)
WAIT = "while [ ! -s child ]; do sleep 0.01; done"


START_DAEMON = f"{shlex.quote(sys.executable)} -c {shlex.quote(DAEMON)}"
DETACHED = {
    "background": f"sleep 600 & echo $! > child; {WAIT}",
    "nohup": f"nohup sleep 600 > /dev/null 2>&1 & echo $! > child; {WAIT}",
    "job control": f"sh -c 'set -m; sleep 600 & echo $! > child'; {WAIT}",
    "daemon": f"{START_DAEMON}; {WAIT}",
    "daemon without output": f"{START_DAEMON} > /dev/null 2>&1; {WAIT}",
}
if sys.platform == "linux":
    # macOS shows no variables of these.
    DETACHED["setsid"] = f"setsid sleep 600 & echo $! > child; {WAIT}"
    DETACHED["daemon without variables"] = f"env -i {START_DAEMON}; {WAIT}"
    DETACHED["daemon beside a killed supervisor"] = f"{START_DAEMON}; {WAIT}; kill -9 $PPID"


def child_of(directory: Path) -> int:
    return int((directory / "child").read_text())


@pytest.mark.parametrize("how", DETACHED)
def test_every_process_ends_with_its_call(how: str, tmp_path: Path) -> None:
    asyncio.run(run_command(DETACHED[how], tmp_path, seconds=SECONDS))
    assert not is_alive(child_of(tmp_path))


def test_every_process_ends_when_the_call_is_cancelled(tmp_path: Path) -> None:
    async def cancel() -> None:
        call = asyncio.create_task(run_command(f"{DETACHED['daemon']}; sleep 600", tmp_path, seconds=SECONDS))
        while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text():
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(cancel())
    assert not is_alive(child_of(tmp_path))


def test_every_process_ends_when_the_chat_is_killed(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys; from pathlib import Path; from mlxctl.chat.tools.shell import run_command\n"
        "asyncio.run(run_command(sys.argv[1], Path(), seconds=600))"
    )
    command = [sys.executable, "-c", program, f"{DETACHED['daemon']}; sleep 600"]
    with subprocess.Popen(command, cwd=tmp_path) as chat:
        wait_for(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text(), seconds=SECONDS)
        chat.kill()
    wait_for(lambda: not is_alive(child_of(tmp_path)), seconds=SECONDS)


def test_command_that_stops_its_supervisor_ends_at_the_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlxctl.chat.tools.shell._END_SECONDS", 0.1)
    command = f"{DETACHED['daemon']}; kill -STOP $PPID; sleep 600"
    result = asyncio.run(run_command(command, tmp_path, seconds=2.0))
    assert result.text == "[stopped after 2 seconds]"
    assert not is_alive(child_of(tmp_path))


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("exit 7", "[exit code 7]"),
        ("kill -TERM $$", f"[exit code {128 + signal.SIGTERM}]"),
        ("kill 0", f"[exit code {128 + signal.SIGTERM}]"),
        ("yes | head -n 1", "y"),
    ],
)
def test_exit_codes_and_signals_are_those_of_a_shell(command: str, text: str, tmp_path: Path) -> None:
    assert asyncio.run(run_command(command, tmp_path, seconds=SECONDS)).text == text


@contextmanager
def sleeping() -> Iterator[int]:
    """Run a process of the user beside the call."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        yield process.pid
        process.kill()


def test_other_processes_of_the_user_go_on(tmp_path: Path) -> None:
    async def run_two() -> None:
        first = asyncio.create_task(
            run_command(f"{DETACHED['background']}; sleep 600", tmp_path, seconds=SECONDS)
        )
        while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text():
            await asyncio.sleep(0.01)
        await run_command("sleep 600 & true", tmp_path, seconds=SECONDS)
        assert is_alive(child_of(tmp_path))
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)

    with sleeping() as other:
        asyncio.run(run_two())
        assert is_alive(other)


def test_commands_get_known_variables_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "HF_TOKEN", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN",
        "MLXCTL_API_KEY", "MLXCTL_POLICY_PASSPHRASE", "SSH_AUTH_SOCK", "DATABASE_URL", "HTTPS_PROXY",
    ):  # fmt: skip
        monkeypatch.setenv(name, "secret-4711")
    for name in ("LC_MESSAGES", "VIRTUAL_ENV", "CC", "TZ"):
        monkeypatch.setenv(name, "shown")
    result = asyncio.run(run_command("env", tmp_path, seconds=SECONDS))
    variables = dict(line.partition("=")[::2] for line in result.text.splitlines())
    assert "secret-4711" not in result.text
    assert [variables[name] for name in ("LC_MESSAGES", "VIRTUAL_ENV", "CC", "TZ")] == ["shown"] * 4
    assert variables["PATH"] == os.environ["PATH"]


def test_processes_are_read_from_the_output_of_ps() -> None:
    output = (
        "    1     0     1 Ss   /sbin/launchd\n"
        "  501     1   501 S    /usr/bin/python3 -c import time HOME=/Users/me MLXCTL_TOOL_CALL=ab12 LANG=C\n"
        "  502   501   501 Z    (python3)\n"
        "  503   501   503 R+   sh -c echo MLXCTL_TOOL_CALL=ab123\n"
        "no process\n"
    )
    assert list(read_ps(output, "MLXCTL_TOOL_CALL=ab12")) == [
        FoundProcess(pid=1, parent=0, group=1, is_marked=False),
        FoundProcess(pid=501, parent=1, group=501, is_marked=True),
        FoundProcess(pid=503, parent=501, group=503, is_marked=False),
    ]
