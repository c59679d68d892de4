"""Disk tier: evicted prefixes are restored with exact outputs.

Also after a restart.
"""

import asyncio
import logging
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mlxctl.engine import EngineClient
from mlxctl.ir import SamplingParams
from mlxctl.prefix_cache.disk.segments import SegmentFiles
from mlxctl.prefix_cache.disk.space import Extent
from mlxctl.state.settings import EngineSettings
from tests.engine.harness import Output, finish, running_engine, submit
from tests.prefix_cache.test_reuse import END_OF_MESSAGE, FAMILIES, GREEDY, SEEDED, ask, cold, text

# Memory for one or two prompts of these tests, so that the next one evicts them.
ONE_PROMPT = 700_000


def on_disk(
    directory: Path, *, memory_bytes: int = 1 << 30, disk_bytes: int = 1 << 30, min_free_bytes: int = 0
) -> EngineSettings:
    return EngineSettings(
        max_rows=8,
        prefix_cache_bytes=memory_bytes,
        cache_dir=directory,
        cache_disk_bytes=disk_bytes,
        cache_min_free_bytes=min_free_bytes,
    )


async def answers(
    client: EngineClient, family: str, prompts: Sequence[Sequence[int]], sampling: SamplingParams = GREEDY
) -> list[Output]:
    return [await ask(client, family, prompt, sampling) for prompt in prompts]


def tokens(outputs: Sequence[Output]) -> list[list[int]]:
    return [output.token_ids for output in outputs]


def segment_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*.segment"))


@pytest.mark.parametrize(
    ("family", "sampling"), [("qwen3", GREEDY), *((family, SEEDED) for family in FAMILIES)]
)
def test_conversation_after_restart_equals_cold_run(
    tmp_path: Path, family: str, sampling: SamplingParams
) -> None:
    async def run() -> None:
        first = [*text(290, 1), END_OF_MESSAGE, *text(40, 2), END_OF_MESSAGE]
        async with running_engine(family, settings=on_disk(tmp_path)) as client:
            (before,) = await answers(client, family, [first], sampling)
        second = [*first, *before.token_ids, *text(30, 3), END_OF_MESSAGE]
        async with running_engine(family, settings=on_disk(tmp_path)) as client:
            outputs = await answers(client, family, [first, second], sampling)
        assert tokens(outputs) == await cold(family, [first, second], sampling)
        assert outputs[0].num_cached >= 291
        assert outputs[1].num_cached >= len(first)

    asyncio.run(run())


@pytest.mark.parametrize("family", ["gemma3", "qwen3_next"])
def test_evicted_prefix_is_restored_from_disk(tmp_path: Path, family: str) -> None:
    async def run() -> None:
        prompts = [[*text(300, seed), END_OF_MESSAGE, *text(10, 90 + seed)] for seed in range(6)]
        async with running_engine(family, settings=on_disk(tmp_path, memory_bytes=ONE_PROMPT)) as client:
            first = await answers(client, family, prompts)
            second = await answers(client, family, prompts)
            stats = await client.stats()
        assert tokens(first) == tokens(second) == await cold(family, prompts)
        assert stats.cache_evicted > 0
        assert stats.cache_bytes <= ONE_PROMPT
        assert all(output.num_cached >= 300 for output in second)

    asyncio.run(run())


@pytest.mark.parametrize("family", FAMILIES)
def test_partial_matches_on_disk_equal_cold_run(tmp_path: Path, family: str) -> None:
    async def run() -> None:
        trunk = text(700, 3)
        lengths = [699, 5, 17, 255, 256, 257, 400, 513] if family == "qwen3" else [699, 255, 257, 513]
        prompts = [[*trunk[:length], *text(20, length)] for length in lengths]
        async with running_engine(family, settings=on_disk(tmp_path)) as client:
            await ask(client, family, trunk)
        warm = []
        for prompt in prompts:
            async with running_engine(family, settings=on_disk(tmp_path)) as client:
                warm.append(await ask(client, family, prompt))
        assert tokens(warm) == await cold(family, prompts)
        if family == "qwen3":
            assert [output.num_cached for output in warm] == [699, 0, *lengths[2:]]

    asyncio.run(run())


@pytest.mark.parametrize("family", FAMILIES)
def test_concurrent_rows_share_promoted_prefix(tmp_path: Path, family: str) -> None:
    async def run() -> None:
        trunk = [*text(400, 4), END_OF_MESSAGE]
        prompts = [[*trunk, *text(10 + agent, 50 + agent)] for agent in range(4)]
        async with running_engine(family, settings=on_disk(tmp_path)) as client:
            await ask(client, family, [*trunk, *text(9, 1)])
        async with running_engine(family, settings=on_disk(tmp_path)) as client:
            warm = await asyncio.gather(*(ask(client, family, prompt) for prompt in prompts))
        assert tokens(warm) == await cold(family, prompts)
        assert all(output.num_cached >= 401 for output in warm)

    asyncio.run(run())


def test_slow_disk_does_not_block_other_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_read = threading.Event()
    read = SegmentFiles.read

    def read_late(files: SegmentFiles, extent: Extent) -> bytes:
        may_read.wait(30)
        return read(files, extent)

    async def run() -> None:
        cached, other = text(600, 1), text(600, 2)
        async with running_engine("qwen3", settings=on_disk(tmp_path)) as client:
            await ask(client, "qwen3", cached)
        monkeypatch.setattr(SegmentFiles, "read", read_late)
        async with running_engine("qwen3", settings=on_disk(tmp_path)) as client:
            waiting = submit(client, "qwen3", cached, max_tokens=4)
            meanwhile = await ask(client, "qwen3", other)
            cancelled = submit(client, "qwen3", [*cached, 7, 8, 9], max_tokens=4)
            cancelled.cancel()
            may_read.set()
            late = await finish(waiting)
        assert meanwhile.num_cached == 0
        assert late.num_cached == 599

    asyncio.run(run())


def test_second_eviction_of_promoted_prefix_writes_nothing(tmp_path: Path) -> None:
    def written() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*.segment")}

    async def run() -> None:
        prompts = [text(500, seed) for seed in range(4)]
        async with running_engine("qwen3", settings=on_disk(tmp_path)) as client:
            await answers(client, "qwen3", prompts)
        before = written()
        async with running_engine("qwen3", settings=on_disk(tmp_path, memory_bytes=ONE_PROMPT)) as client:
            again = await answers(client, "qwen3", prompts)
        assert before
        assert written() == before
        assert all(output.num_cached == 499 for output in again)

    asyncio.run(run())


@pytest.mark.parametrize("family", ["qwen3", "lfm2"])
def test_files_stay_within_limit_and_keep_last_used(tmp_path: Path, family: str) -> None:
    async def run() -> None:
        prompts = [text(600, seed) for seed in range(8)]
        quota = 2_500_000
        settings = on_disk(tmp_path, memory_bytes=ONE_PROMPT, disk_bytes=quota)
        async with running_engine(family, settings=settings) as client:
            for prompt in prompts:
                await ask(client, family, prompt)
                assert segment_bytes(tmp_path) <= quota
        async with running_engine(family, settings=settings) as client:
            last = await ask(client, family, prompts[-1])
        assert last.num_cached >= 512
        assert segment_bytes(tmp_path) <= quota
        smaller = on_disk(tmp_path, memory_bytes=ONE_PROMPT, disk_bytes=quota // 4)
        async with running_engine(family, settings=smaller):
            pass
        assert segment_bytes(tmp_path) <= quota // 4

    asyncio.run(run())


def test_deleted_directory_is_a_miss_and_no_failure(tmp_path: Path) -> None:
    async def run() -> None:
        prompts = [text(600, seed) for seed in range(4)]
        settings = on_disk(tmp_path / "cache", memory_bytes=ONE_PROMPT)
        async with running_engine("qwen3", settings=settings) as client:
            before = await answers(client, "qwen3", prompts)
            shutil.rmtree(tmp_path / "cache")
            after = await answers(client, "qwen3", prompts)
        assert tokens(after) == tokens(before)

    asyncio.run(run())


def test_nothing_is_written_below_minimum_free_space(tmp_path: Path) -> None:
    async def run() -> None:
        prompt = text(600, 1)
        for _ in range(2):
            async with running_engine("qwen3", settings=on_disk(tmp_path, min_free_bytes=1 << 60)) as client:
                output = await ask(client, "qwen3", prompt)
            assert output.num_cached == 0
        assert segment_bytes(tmp_path) == 0

    asyncio.run(run())


def test_too_little_free_space_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        settings = on_disk(tmp_path, memory_bytes=ONE_PROMPT, min_free_bytes=1 << 60)
        async with running_engine("qwen3", settings=settings) as client:
            for seed in range(4):
                await ask(client, "qwen3", text(300, seed))

    asyncio.run(run())
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(lines) == 1
    assert "too little free space" in lines[0]


def test_files_are_readable_by_owner_only(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_engine("qwen3", settings=on_disk(tmp_path / "cache")) as client:
            await ask(client, "qwen3", text(300, 1))

    asyncio.run(run())
    home = tmp_path / "cache" / "prefixes"
    assert home.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in home.iterdir()} == {0o600}


def test_second_server_runs_without_disk_tier_and_logs_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        prompt = text(300, 1)
        async with running_engine("qwen3", settings=on_disk(tmp_path)) as first:
            await ask(first, "qwen3", prompt)
            async with running_engine("qwen3", settings=on_disk(tmp_path)) as second:
                output = await ask(second, "qwen3", prompt)
                assert output.num_cached == 0
        async with running_engine("qwen3", settings=on_disk(tmp_path)) as again:
            assert (await ask(again, "qwen3", prompt)).num_cached == 299

    asyncio.run(run())
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(lines) == 1
    assert "used by another mlxctl" in lines[0]


def forbidden(directory: Path) -> None:
    directory.write_text("a file where the directory should be")


def linked(directory: Path) -> None:
    directory.mkdir()
    (directory / "elsewhere").mkdir()
    (directory / "prefixes").symlink_to(directory / "elsewhere")


@pytest.mark.parametrize("make_unusable", [forbidden, linked])
def test_unusable_directory_costs_one_log_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, make_unusable: Callable[[Path], None]
) -> None:
    make_unusable(tmp_path / "cache")

    async def run() -> None:
        prompt = text(300, 1)
        async with running_engine("qwen3", settings=on_disk(tmp_path / "cache")) as client:
            outputs = await answers(client, "qwen3", [prompt, prompt])
        assert tokens(outputs) == await cold("qwen3", [prompt, prompt])
        assert outputs[1].num_cached == 299

    asyncio.run(run())
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(lines) == 1
    assert "running without its disk tier" in lines[0]


def test_entries_of_a_model_that_is_not_loaded_keep_its_name(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_engine("qwen3", settings=on_disk(tmp_path)) as client:
            await ask(client, "qwen3", text(600, 1))
        async with running_engine("llama3", settings=on_disk(tmp_path)) as client:
            listed = await client.ask_cache("list", limit=9)
        assert [chunk.model for chunk in listed.chunks] == ["qwen3"] * 2

    asyncio.run(run())


def test_stats_report_disk_contents_and_damage(tmp_path: Path) -> None:
    async def run() -> None:
        prompt = text(600, 1)
        async with running_engine("qwen3", settings=on_disk(tmp_path)) as client:
            await ask(client, "qwen3", prompt)
        segment = next(tmp_path.rglob("*.segment"))
        data = segment.read_bytes()
        segment.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        async with running_engine("qwen3", settings=on_disk(tmp_path, disk_bytes=1 << 29)) as client:
            before = (await client.stats()).cache_disk
            await ask(client, "qwen3", prompt)
            after = (await client.stats()).cache_disk
        assert before is not None
        assert after is not None
        assert (before.num_chunks, before.num_damaged, before.max_bytes) == (2, 0, 1 << 29)
        assert before.file_bytes == len(data) >= before.num_bytes
        assert after.num_damaged == 1

    asyncio.run(run())


def test_stats_without_disk_tier_have_no_disk_figures() -> None:
    async def run() -> None:
        async with running_engine("qwen3") as client:
            assert (await client.stats()).cache_disk is None

    asyncio.run(run())
