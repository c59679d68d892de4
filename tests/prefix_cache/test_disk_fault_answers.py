"""Damaged files before a start: exact outputs and one log line.

`verify` names the fault.
"""

import asyncio
import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from mlxctl.prefix_cache.disk import header
from tests.engine.harness import Output, running_engine
from tests.prefix_cache.test_disk import on_disk
from tests.prefix_cache.test_disk_faults import flipped, foreign, missing, problems, truncated, warnings
from tests.prefix_cache.test_reuse import END_OF_MESSAGE, ask, cold, text

PROMPT = [*text(600, 1), END_OF_MESSAGE, *text(20, 2)]


def served(directory: Path, family: str) -> tuple[Output, Output]:
    """Return a server's outputs for the prompt, twice."""

    async def run() -> tuple[Output, Output]:
        async with running_engine(family, settings=on_disk(directory)) as client:
            return await ask(client, family, PROMPT), await ask(client, family, PROMPT)

    return asyncio.run(run())


@functools.cache
def cold_answer(family: str) -> list[int]:
    return asyncio.run(cold(family, [PROMPT]))[0]


@pytest.mark.parametrize(
    ("family", "damage", "named"),
    [
        ("qwen3", truncated, "truncated"),
        ("qwen3", flipped, "damaged"),
        ("qwen3", missing, "missing"),
        ("lfm2", foreign, "damaged"),
    ],
)
def test_damaged_prefix_is_recomputed_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, family: str, damage: Callable[[Path], None], named: str
) -> None:
    served(tmp_path, family)
    damage(tmp_path)
    assert named in problems(tmp_path)

    first, second = served(tmp_path, family)

    assert [first.token_ids, second.token_ids] == [cold_answer(family)] * 2
    assert first.num_cached < len(PROMPT) - 1
    assert second.num_cached >= 601
    assert len(warnings(caplog)) == 1
    assert problems(tmp_path) == []


def test_newer_record_format_is_recomputed_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as later:
        later.setattr(header, "FORMAT_VERSION", 99)
        served(tmp_path, "qwen3")
    assert problems(tmp_path)

    first, second = served(tmp_path, "qwen3")

    assert [first.token_ids, second.token_ids] == [cold_answer("qwen3")] * 2
    assert (first.num_cached, second.num_cached) == (0, len(PROMPT) - 1)
    assert len(warnings(caplog)) == 1


def test_concurrent_rows_under_eviction_equal_single_runs() -> None:
    """Restored chunks are leased, however small the budget is."""
    prompts = [[*text(600, seed % 3), *text(10, 90 + seed)] for seed in range(6)]

    async def run() -> None:
        tight = on_disk(Path(), memory_bytes=700_000, disk_bytes=0)
        async with running_engine("qwen3", settings=tight) as client:
            for _ in range(2):
                outputs = await asyncio.gather(*(ask(client, "qwen3", prompt) for prompt in prompts))
                assert [output.token_ids for output in outputs] == expected
            stats = await client.stats()
        assert stats.cache_evicted > 0
        assert stats.cache_tokens_reused > 0

    expected = asyncio.run(cold("qwen3", prompts))
    asyncio.run(run())
