"""The exit status of a child process is always known and described."""

import asyncio
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from mlxctl.engine import EngineProcess
from mlxctl.engine.client.child_process import ChildProcess, describe_exit, start_child
from mlxctl.state.settings import EngineSettings

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.mark.parametrize(
    ("status", "description"),
    [
        (0, "exit status 0"),
        (3, "exit status 3"),
        (-9, "killed by signal 9 (SIGKILL)"),
        (-11, "killed by signal 11 (SIGSEGV)"),
    ],
)
def test_exit_status_is_described_in_words(status: int, description: str) -> None:
    assert describe_exit(status).startswith(description)


def test_unexpected_sigkill_mentions_memory() -> None:
    assert "--memory-limit" in describe_exit(-signal.SIGKILL)
    assert "--memory-limit" not in describe_exit(-signal.SIGTERM)


def test_exit_status_survives_repeated_kills() -> None:
    async def run() -> None:
        for _ in range(10):
            child = ChildProcess(SLEEP)
            for _ in range(20):
                child.kill()
                await asyncio.sleep(0)
            assert await asyncio.wait_for(child.wait(), 60) == -signal.SIGKILL
            child.kill()

    asyncio.run(run())


def test_engine_whose_front_has_ended_meanwhile_ends_without_words(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mlxctl.engine.process", str(tmp_path / "socket"), "{}", "text"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, "")


@pytest.mark.parametrize("num_turns", range(8))
def test_cancellation_is_not_lost_when_the_engine_ends_at_once(num_turns: int) -> None:
    """Otherwise the supervisor starts another engine, for which `stop` waits."""

    async def run() -> None:
        launcher = EngineProcess(EngineSettings())
        launcher._process = child = ChildProcess(SLEEP)
        waiting = asyncio.create_task(launcher.end(grace_seconds=60))
        await asyncio.sleep(0.01)
        child._note_end(0)
        for _ in range(num_turns):
            await asyncio.sleep(0)
        if waiting.cancel():
            with pytest.raises(asyncio.CancelledError):
                await waiting
        child.kill()
        await asyncio.to_thread(child._process.wait)

    asyncio.run(run())


def test_exit_status_is_known_with_an_inherited_ignored_sigchld() -> None:
    program = (
        "import asyncio, sys\nfrom mlxctl.engine.client.child_process import ChildProcess\n"
        "async def run():\n    print(await ChildProcess([sys.executable, '-c', 'raise "
        "SystemExit(3)']).wait())\n"
        "asyncio.run(run())"
    )
    output = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    )
    assert output.stdout == "3\n"


def test_child_ignores_ctrl_c_from_its_first_moment() -> None:
    child = start_child([sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGINT)"])
    assert child.wait(60) == 0


def test_ctrl_c_while_a_child_starts_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal sends it to both processes, and users press it once."""
    start = subprocess.Popen
    started: list[subprocess.Popen[bytes]] = []

    def interrupted_start(*arguments: Any, **options: Any) -> "subprocess.Popen[bytes]":
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        started.append(start(*arguments, **options))
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", interrupted_start)
    with pytest.raises(KeyboardInterrupt):
        start_child([sys.executable, "-c", ""])
    assert started[0].wait() == 0
