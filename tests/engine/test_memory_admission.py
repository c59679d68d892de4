"""Admission by memory: a wrong figure delays, and never refuses for good."""

import asyncio

import mlx.core as mx
import pytest

from mlxctl.engine import ModelLoaded
from mlxctl.engine.backend import CPU
from mlxctl.engine.host.process_memory import ProcessOverhead
from mlxctl.engine.memory import EngineMemory
from mlxctl.ir.errors import MemoryShortage
from mlxctl.state.settings import EngineSettings

from .harness import finish, running_engine, submit
from .scheduling.test_scheduler import PLENTY, make_scheduler, make_sequence, start_stream
from .simulation import Machine, Simulation

HOURS = 3600.0


def test_nothing_is_refused_during_27_hours_of_a_wrong_memory_figure() -> None:
    simulation = Simulation(Machine())
    simulation.available_bytes = 0
    requests = []
    while simulation.now < 27 * HOURS:
        requests.append(simulation.ask(200, num_tokens=4))
        simulation.run()
        simulation.now += 60.0

    assert len(requests) > 1600
    assert all(len(request.tokens) == 4 for request in requests)
    assert simulation.num_refused == 0


def test_correct_memory_figure_counts_at_the_next_step() -> None:
    simulation = Simulation(Machine(), max_rows=8)
    simulation.memory_wait_seconds = 28 * HOURS
    simulation.available_bytes = 0
    long = simulation.ask(200, num_tokens=1_000_000_000)
    simulation.run(until=lambda: bool(long.tokens))
    waiting = [simulation.ask(200, num_tokens=2) for _ in range(5)]
    simulation.run(seconds=1.0)
    simulation.now += 27 * HOURS
    simulation.run(seconds=1.0)
    assert not any(request.tokens for request in waiting)

    simulation.available_bytes = 1 << 40
    corrected = simulation.now
    simulation.run(until=lambda: all(request.tokens for request in waiting))

    assert max(request.tokens[0] for request in waiting) - corrected < 1.0
    assert simulation.num_refused == 0


def test_prompt_is_refused_after_its_time_without_memory_only() -> None:
    simulation = Simulation(Machine(), max_rows=8)
    simulation.memory_wait_seconds = 6.0
    long = simulation.ask(200, num_tokens=1_000_000_000)
    simulation.run(until=lambda: bool(long.tokens))
    simulation.available_bytes = 0
    simulation.ask(200, num_tokens=2)

    simulation.run(seconds=5.9)
    assert simulation.num_refused == 0
    simulation.run(seconds=0.2)
    assert simulation.num_refused == 1
    late = simulation.ask(200, num_tokens=2)
    simulation.run(seconds=5.9)
    simulation.available_bytes = 1 << 40
    simulation.run(until=lambda: len(late.tokens) == 2)
    assert simulation.num_refused == 1


def test_prompt_that_fits_meanwhile_starts_to_wait_anew() -> None:
    scheduler = make_scheduler()
    start_stream(scheduler)
    scheduler.add(make_sequence(2))
    refused = [
        scheduler.take_short_of_memory(available_bytes=available_bytes, now=now, seconds=6.0)
        for now, available_bytes in ((0.0, 0), (5.0, PLENTY), (8.0, 0), (13.9, 0), (14.1, 0))
    ]
    assert [len(rows) for rows in refused] == [0, 0, 0, 0, 1]


def test_memory_held_by_another_row_fails_with_its_arithmetic() -> None:
    async def run() -> None:
        settings = EngineSettings(memory_limit_bytes=5_000_000, memory_wait_seconds=0.0)
        # In its own process: memory of other tests would count against the limit.
        async with running_engine("endless", settings=settings, own_process=True) as client:
            holder = submit(client, "endless", [30] * 2000, max_tokens=20_000)
            while not any(update.token_ids for update in await holder.next()):
                pass

            with pytest.raises(MemoryShortage) as refused:
                await finish(submit(client, "endless", [40] * 2000, max_tokens=1))

            for part in (
                "needs 3.18 MB",
                "of 5.00 MB are free",
                "the weights of endless 0.85 MB",
                "running",
            ):
                assert part in str(refused.value)
            holder.cancel()
            assert len((await finish(submit(client, "endless", [40] * 2000, max_tokens=1))).token_ids) == 1

    asyncio.run(run())


@pytest.mark.parametrize(("name", "windows"), [("endless", []), ("gemma3", [(32, 512)]), ("lfm2", [])])
def test_loaded_model_reports_its_sliding_windows(name: str, windows: list[tuple[int, int]]) -> None:
    async def run() -> ModelLoaded:
        async with running_engine(name) as client:
            return client.loaded[name]

    assert asyncio.run(run()).kv_windows == windows


def test_memory_of_the_process_counts_beyond_its_allowance_and_is_measured_again() -> None:
    now, resident = [0.0], [100_000_000]
    overhead = ProcessOverhead(measure=lambda: resident[0], clock=lambda: now[0])
    memory = EngineMemory(backend=CPU, limit_bytes=1 << 40, prefix_cache_bytes=0, overhead=overhead)
    plain = memory.available_bytes

    resident[0] += 10_000_000_000
    now[0] += 1.0

    counted = int(mx.get_active_memory()) + int(mx.get_cache_memory())
    expected = 10_000_000_000 - 256 * 1024**2 - counted
    assert plain - memory.available_bytes == pytest.approx(expected, abs=1_000_000)
    assert "the engine process 9." in memory.describe_shortage(1)
    resident[0] = 100_000_000
    now[0] += 1.0
    assert memory.available_bytes == plain
    assert "the engine process" not in memory.describe_shortage(1)
