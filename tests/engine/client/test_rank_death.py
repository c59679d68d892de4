"""Death of a rank ends its group, which starts again."""

import asyncio
import os
import signal

import pytest

from mlxctl.engine import EngineClient, EngineRanks
from mlxctl.ir.errors import EngineDied, EngineRecovering
from mlxctl.state.settings import EngineSettings
from tests.engine.client.test_client import engine_pid, wait_until
from tests.engine.harness import finish, sources, submit
from tests.server.process import is_alive

SETTINGS = EngineSettings(ranks=2, stall_seconds=3.0)


def test_dead_or_stopped_rank_fails_streams_and_the_group_starts_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        launcher = EngineRanks(SETTINGS)
        client = EngineClient(launcher, SETTINGS, max_queue=10)
        await client.start(sources(["endless"]))
        await client.wait_ready()
        answer = await finish(submit(client, "endless", range(20, 40), max_tokens=5))

        async def end(pid: int, number: signal.Signals) -> list[int]:
            """Signal a rank during an answer; return the group's pids."""
            pids = [engine_pid(client), launcher._others[1].pid]
            stream = submit(client, "endless", range(20, 40), max_tokens=1_000_000)
            await stream.next()
            os.kill(pid, number)
            with pytest.raises(EngineDied):
                await asyncio.wait_for(finish(stream), 60)
            return pids

        for number in (signal.SIGKILL, signal.SIGSTOP):
            ended = await end(launcher._others[1].pid, number)
            await wait_until(lambda: client.status == "ready")
            assert not any(map(is_alive, ended))
            again = await finish(submit(client, "endless", range(20, 40), max_tokens=5))
            assert again.token_ids == answer.token_ids

        ended = await end(engine_pid(client), signal.SIGKILL)
        with pytest.raises(EngineRecovering):
            submit(client, "endless", [30])
        await wait_until(lambda: not any(map(is_alive, ended)))
        await client.stop(drain_seconds=0)
        assert not launcher._others

    asyncio.run(run())
    assert any("rank 1 (process " in line and "SIGKILL" in line for line in caplog.messages)
