"""The engine's life through EngineClient: start, death, restart, refusal, end."""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mlxctl.engine import AudioWindow, EngineClient, EngineProcess
from mlxctl.engine.client import engine_client
from mlxctl.ir import ModelSpec
from mlxctl.ir.errors import (
    BrokenModel,
    ContextOverBudget,
    EngineDied,
    EngineRecovering,
    NotEnoughMemory,
    QueueFull,
    SequenceFailed,
    ShuttingDown,
)
from mlxctl.state import locations
from mlxctl.state.settings import EngineSettings
from tests import tiny_models
from tests.engine.harness import finish, running_engine, sources, submit
from tests.server.process import is_alive


async def wait_until(condition: Callable[[], bool], *, seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def engine_pid(client: EngineClient) -> int:
    assert client.hello is not None
    return client.hello.pid


def socket_files() -> list[Path]:
    return list(locations.runtime_directory().glob(f"engine-{os.getpid()}-*"))


def test_killed_engine_fails_open_requests_and_restarts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        async with running_engine("endless", own_process=True) as client:
            first_pid = engine_pid(client)
            streams = [submit(client, "endless", range(20, 40), max_tokens=100_000) for _ in range(3)]
            for stream in streams:
                await stream.next()

            os.kill(first_pid, signal.SIGKILL)

            for stream in streams:
                with pytest.raises(EngineDied):
                    await finish(stream)
            assert client.status == "recovering"
            with pytest.raises(EngineRecovering) as refusal:
                submit(client, "endless", [30])
            assert refusal.value.retry_after_seconds > 0

            await wait_until(lambda: client.status == "ready")
            output = await finish(submit(client, "endless", range(20, 40), max_tokens=5))
            assert len(output.token_ids) == 5
            assert engine_pid(client) != first_pid
            assert any(
                f"process {first_pid}: killed by signal 9 (SIGKILL)" in line for line in caplog.messages
            )
            assert "engine: starting again at once" in caplog.messages

    asyncio.run(run())


def test_engine_that_does_not_answer_has_its_last_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_client, "_STATS_SECONDS", 0.1)

    async def run() -> None:
        async with running_engine("endless", own_process=True) as client:
            last = await client.stats()
            os.kill(engine_pid(client), signal.SIGSTOP)
            try:
                assert await client.stats() is last
                assert client.stats_age_seconds >= 0.1
            finally:
                os.kill(engine_pid(client), signal.SIGCONT)

    asyncio.run(run())


def test_engine_that_never_starts_reports_its_exit_status(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))

    async def run() -> None:
        client = EngineClient(EngineProcess(EngineSettings()), EngineSettings(), max_queue=1)
        await client.start(sources(["endless"]))
        with pytest.raises(EngineDied, match="did not start: exit status 1"):
            await client.wait_ready()
        await client.stop(drain_seconds=0)

    asyncio.run(run())
    assert [line for line in caplog.messages if "starting again" in line] == [
        "engine: starting again in 0.25 s",
        "engine: starting again in 0.50 s",
    ]


def test_stop_drains_open_requests_and_removes_process_and_socket() -> None:
    async def run() -> None:
        settings = EngineSettings()
        client = EngineClient(EngineProcess(settings), settings, max_queue=10)
        await client.start(sources(["endless"]))
        await client.wait_ready()
        pid = engine_pid(client)
        assert socket_files() == []
        short = submit(client, "endless", range(20, 30), max_tokens=5)
        long = submit(client, "endless", range(20, 30), max_tokens=1_000_000)

        stopping = asyncio.create_task(client.stop(drain_seconds=1.0))
        await asyncio.sleep(0)
        with pytest.raises(ShuttingDown):
            submit(client, "endless", [30])
        assert len((await finish(short)).token_ids) == 5
        with pytest.raises(ShuttingDown):
            await finish(long)
        await stopping

        assert not is_alive(pid)
        assert socket_files() == []

    asyncio.run(run())


def test_engine_ends_when_its_front_is_killed() -> None:
    async def run() -> int:
        launcher = EngineProcess(EngineSettings())
        connection = await launcher.launch()
        process = launcher._process
        assert process is not None
        connection.close()
        return await asyncio.wait_for(process.wait(), 60)

    assert asyncio.run(run()) == 0


def test_cancelled_sequence_frees_its_row() -> None:
    async def run() -> None:
        async with running_engine("endless", settings=EngineSettings(max_rows=1)) as client:
            blocking = submit(client, "endless", range(20, 60), max_tokens=1_000_000)
            await blocking.next()
            waiting = submit(client, "endless", range(20, 30), max_tokens=3)

            blocking.cancel()

            assert len((await asyncio.wait_for(finish(waiting), 60)).token_ids) == 3
            assert (await client.stats()).num_decoding == 0

    asyncio.run(run())


def test_full_queue_raises_queue_full() -> None:
    async def run() -> None:
        async with running_engine("endless", settings=EngineSettings(max_rows=1), max_queue=2) as client:
            streams = [submit(client, "endless", range(20, 60), max_tokens=1_000_000) for _ in range(3)]

            with pytest.raises(QueueFull) as refusal:
                submit(client, "endless", [30])

            assert refusal.value.retry_after_seconds > 0
            for stream in streams:
                stream.cancel()
            assert len((await finish(submit(client, "endless", range(20, 30), max_tokens=2))).token_ids) == 2

    asyncio.run(run())


def test_prompt_larger_than_memory_fails_alone() -> None:
    async def run() -> None:
        settings = EngineSettings(memory_limit_bytes=40_000_000)
        # In its own process: memory of other tests would count against the limit.
        async with running_engine("qwen3", settings=settings, own_process=True) as client:
            with pytest.raises(ContextOverBudget, match="memory-limit"):
                await finish(submit(client, "qwen3", [30] * 60_000))
            assert len((await finish(submit(client, "qwen3", [30], max_tokens=4))).token_ids) == 4

    asyncio.run(run())


def test_model_larger_than_memory_reports_both_sizes() -> None:
    async def run() -> None:
        settings = EngineSettings(memory_limit_bytes=1000)
        client = EngineClient(EngineProcess(settings), settings, max_queue=1)
        path = tiny_models.model("qwen3")
        await client.start([ModelSpec(name="m", path=path, weights_bytes=5_000_000)])
        with pytest.raises(NotEnoughMemory) as failure:
            await client.wait_ready()
        assert (failure.value.needed_bytes, failure.value.limit_bytes) == (5_000_000, 1000)
        await client.stop(drain_seconds=0)

    asyncio.run(run())


def test_truncated_weights_report_one_line(tmp_path: Path) -> None:
    for file in tiny_models.model("qwen3").iterdir():
        content = file.read_bytes()
        (tmp_path / file.name).write_bytes(
            content[: len(content) // 2] if file.suffix == ".safetensors" else content
        )

    async def run() -> None:
        settings = EngineSettings()
        client = EngineClient(EngineProcess(settings), settings, max_queue=1)
        await client.start([ModelSpec(name="m", path=tmp_path, weights_bytes=1)])
        with pytest.raises(BrokenModel) as failure:
            await client.wait_ready()
        assert "\n" not in str(failure.value)
        assert client.status == "failed"
        await client.stop(drain_seconds=0)

    asyncio.run(run())


def test_stalled_engine_is_restarted() -> None:
    async def run() -> None:
        settings = EngineSettings(stall_seconds=2.0)
        client = EngineClient(EngineProcess(settings), settings, max_queue=10)
        await client.start(sources(["endless"]))
        await client.wait_ready()
        pid = engine_pid(client)
        stream = submit(client, "endless", range(20, 30), max_tokens=1_000_000)
        await stream.next()

        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(EngineDied):
            await asyncio.wait_for(finish(stream), 60)

        await wait_until(lambda: client.status == "ready")
        assert engine_pid(client) != pid
        await client.stop(drain_seconds=0)

    asyncio.run(run())


def test_failures_name_the_http_request_in_error_and_log(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> list[str]:
        failures = []
        async with running_engine("qwen3") as client:
            stream = submit(client, "missing", [20], request_id="req_text")
            window = AudioWindow(model="missing", samples=b"")
            for answer in (
                finish(stream),
                client.embed(model="missing", texts=[[20]], request_id="req_vectors"),
                client.transcribe(window, request_id="req_audio"),
            ):
                with pytest.raises(SequenceFailed) as failure:
                    await answer
                failures.append(str(failure.value))
        return failures

    failures = asyncio.run(run())
    for failure, request_id in zip(failures, ("req_text", "req_vectors", "req_audio"), strict=True):
        assert failure.endswith(f"is not loaded (request {request_id})")
        assert f"engine: request {request_id}: " in caplog.text
