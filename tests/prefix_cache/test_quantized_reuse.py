"""Prefix hits of quantized KV caches equal a cold run."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxctl.engine import EngineClient
from mlxctl.ir import KVFormat, ModelSpec, SamplingParams, TextGenerationTask
from mlxctl.ir.errors import ContextOverBudget
from mlxctl.ir.kv_cache_size import KVFormats
from mlxctl.ir.model_spec import TextModelOptions
from mlxctl.state.settings import EngineSettings
from tests.engine.harness import Output, running_engine
from tests.prefix_cache.test_disk import on_disk, tokens
from tests.prefix_cache.test_reuse import COLD, END_OF_MESSAGE, GREEDY, SEEDED, WARM, ask, text
from tests.tiny_models.wide_heads import wide_model

# Full attention, sliding windows (not quantized), short convolutions, linear attention with experts.
FAMILIES = ["qwen3", "gemma3", "lfm2", "qwen3_next"]
IN_8, IN_4 = KVFormat(bits=8, group_size=32), KVFormat(bits=4, group_size=32)
BY_LAYER = ((0, IN_8), (1, IN_4))


def source(family: str, form: KVFormats | None) -> ModelSpec:
    return ModelSpec(
        name=family,
        path=wide_model(family),
        weights_bytes=1,
        task=TextGenerationTask(options=TextModelOptions(kv_format=form)),
    )


def engine(
    family: str, form: KVFormats | None, chosen: EngineSettings
) -> AbstractAsyncContextManager[EngineClient]:
    return running_engine(models=[source(family, form)], settings=chosen)


async def cold(
    family: str, form: KVFormats, prompts: Sequence[Sequence[int]], sampling: SamplingParams = GREEDY
) -> list[list[int]]:
    async with engine(family, form, COLD) as client:
        return [(await ask(client, family, prompt, sampling)).token_ids for prompt in prompts]


@pytest.mark.parametrize(
    ("family", "form"), [("qwen3", IN_4), ("qwen3", BY_LAYER), *((family, IN_8) for family in FAMILIES)]
)
def test_conversation_equals_cold_run_also_after_restart(
    tmp_path: Path, family: str, form: KVFormats
) -> None:
    async def run() -> None:
        first = [*text(290, 1), END_OF_MESSAGE, *text(40, 2), END_OF_MESSAGE]
        async with engine(family, form, on_disk(tmp_path)) as client:
            one = await ask(client, family, first, SEEDED)
            second = [*first, *one.token_ids, *text(30, 3), END_OF_MESSAGE]
            two = await ask(client, family, second, SEEDED)
        third = [*second, *two.token_ids, *text(30, 4), END_OF_MESSAGE]
        async with engine(family, form, on_disk(tmp_path)) as client:
            three = await ask(client, family, third, SEEDED)
        assert tokens([one, two, three]) == await cold(family, form, [first, second, third], SEEDED)
        assert two.num_cached >= len(first)
        assert three.num_cached >= len(second)

    asyncio.run(run())


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=1, deadline=None, derandomize=True)
@given(lengths=st.lists(st.integers(17, 599), min_size=3, max_size=4, unique=True))
def test_partial_matches_equal_cold_run(family: str, lengths: list[int]) -> None:
    async def run() -> None:
        trunk = text(600, 3)
        prompts = [[*trunk[:length], *text(20, length)] for length in lengths]
        async with engine(family, IN_8, WARM) as client:
            await ask(client, family, trunk)
            warm = [await ask(client, family, prompt) for prompt in prompts]
        assert tokens(warm) == await cold(family, IN_8, prompts)
        if family == "qwen3":
            assert [output.num_cached for output in warm] == lengths

    asyncio.run(run())


@pytest.mark.parametrize("family", FAMILIES)
def test_concurrent_rows_sharing_a_hit_equal_single_runs(family: str) -> None:
    async def run() -> None:
        trunk = [*text(400, 4), END_OF_MESSAGE]
        prompts = [[*trunk, *text(10 + agent, 50 + agent)] for agent in range(4)]
        async with engine(family, IN_8, WARM) as client:
            await ask(client, family, [*trunk, *text(9, 1)])
            warm = await asyncio.gather(*(ask(client, family, prompt) for prompt in prompts))
            again = await asyncio.gather(*(ask(client, family, prompt) for prompt in prompts))
        expected = await cold(family, IN_8, prompts)
        assert tokens(warm) == tokens(again) == expected
        assert all(output.num_cached >= 401 for output in warm)

    asyncio.run(run())


def test_prefix_of_another_kv_format_is_not_reused(tmp_path: Path) -> None:
    async def run() -> None:
        prompt = text(300, 5)
        seen: list[tuple[Output, Output]] = []
        for form in (IN_8, IN_4, None):
            async with engine("qwen3", form, on_disk(tmp_path)) as client:
                seen.append((await ask(client, "qwen3", prompt), await ask(client, "qwen3", prompt)))
        assert [(first.num_cached, second.num_cached) for first, second in seen] == [(0, 299)] * 3
        assert all(first.token_ids == second.token_ids for first, second in seen)

    asyncio.run(run())


def test_quantized_cache_size_counts_for_prompt_limit() -> None:
    weights_bytes, room_bytes, num_answer = 2_102_784, 400 * 2048, 1
    # In floats of 32 bits: 4 layers, keys and values of 2 heads of 32 numbers; a scale and a bias for each
    # head.
    sizes = {None: 4 * 2 * 2 * 32 * 4, IN_8: 4 * 2 * 2 * (32 + 8), IN_4: 4 * 2 * 2 * (16 + 8)}

    async def run() -> None:
        for form, size in sizes.items():
            settings = replace(COLD, memory_limit_bytes=weights_bytes + room_bytes)
            # In its own process: memory of other tests would count against the limit.
            async with running_engine(
                models=[source("qwen3", form)], settings=settings, own_process=True
            ) as client:
                assert client.loaded["qwen3"].kv_bytes_per_token == size
                longest = client.loaded["qwen3"].conversation.tokens_within(room_bytes) - num_answer
                with pytest.raises(ContextOverBudget, match="memory-limit"):
                    await ask(client, "qwen3", text(longest + 1, 6), num=num_answer)
                # The longest prompt that fits with its answer; the engine reserves no more.
                assert (await ask(client, "qwen3", text(longest, 6), num=num_answer)).token_ids
            async with engine("qwen3", form, WARM) as client:
                await ask(client, "qwen3", text(300, 6))
                assert (await client.stats()).cache_bytes == pytest.approx(311 * size, rel=0.01)

    asyncio.run(run())
