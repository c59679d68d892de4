"""How a child process ended is always known, and told in words."""

import asyncio
import signal
import subprocess
import sys

import pytest

from mlxctl.engine.client.child_process import ChildProcess, describe_exit

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (0, "exit status 0"),
        (3, "exit status 3"),
        (-9, "killed by signal 9 (SIGKILL)"),
        (-11, "killed by signal 11 (SIGSEGV)"),
    ],
)
def test_an_exit_status_is_told_in_words(status: int, told: str) -> None:
    assert describe_exit(status).startswith(told)


def test_a_kill_that_nobody_here_sent_points_at_the_memory() -> None:
    assert "--memory-limit" in describe_exit(-signal.SIGKILL)
    assert "--memory-limit" not in describe_exit(-signal.SIGTERM)


def test_the_exit_status_is_known_however_often_it_is_killed_while_it_ends() -> None:
    async def run() -> None:
        for _ in range(10):
            child = ChildProcess(SLEEP)
            for _ in range(20):
                child.kill()
                await asyncio.sleep(0)
            assert await asyncio.wait_for(child.wait(), 10) == -signal.SIGKILL
            child.kill()

    asyncio.run(run())


def test_the_exit_status_is_known_where_the_parent_has_left_us_with_ignored_children() -> None:
    program = (
        "import asyncio, sys\nfrom mlxctl.engine.client.child_process import ChildProcess\n"
        "async def run():\n    print(await ChildProcess([sys.executable, '-c', 'raise SystemExit(3)']).wait())\n"
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
