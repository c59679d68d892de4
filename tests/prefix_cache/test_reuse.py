"""Prefix hits equal a cold run for every kind of layer."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from mlxctl.engine import EngineClient
from mlxctl.ir import SamplingParams
from mlxctl.state.settings import EngineSettings
from tests.engine.harness import Output, finish, running_engine, submit

# Plain attention, sliding window, windows in turn with attention and experts, short convolutions with
# attention, linear attention with attention and experts.
FAMILIES = ["qwen3", "gemma3", "lfm2", "qwen3_next"]
END_OF_MESSAGE = 3
COLD = EngineSettings(max_rows=8, prefix_cache_bytes=0)
WARM = EngineSettings(max_rows=8, prefix_cache_bytes=1 << 30)
GREEDY = SamplingParams(temperature=0)
SEEDED = SamplingParams(temperature=1.0, seed=5)


def text(num: int, seed: int) -> list[int]:
    generator = random.Random(seed)
    return [generator.randrange(10, 500) for _ in range(num)]


async def ask(
    client: EngineClient, family: str, prompt: Sequence[int], sampling: SamplingParams = GREEDY, num: int = 12
) -> Output:
    stop = frozenset({END_OF_MESSAGE})
    return await finish(submit(client, family, prompt, max_tokens=num, sampling=sampling, stop=stop))


async def cold(
    family: str, prompts: Sequence[Sequence[int]], sampling: SamplingParams = GREEDY
) -> list[list[int]]:
    async with running_engine(family, settings=COLD) as client:
        return [(await ask(client, family, prompt, sampling)).token_ids for prompt in prompts]


@pytest.mark.parametrize(
    ("family", "sampling"), [("qwen3", GREEDY), *((family, SEEDED) for family in FAMILIES)]
)
def test_conversation_equals_cold_run(family: str, sampling: SamplingParams) -> None:
    async def run() -> None:
        system = [*text(290, 1), END_OF_MESSAGE]
        prompts = []
        async with running_engine(family, settings=WARM) as client:
            outputs = []
            prompt = [*system, *text(40, 2), END_OF_MESSAGE]
            for turn in range(3):
                prompts.append(prompt)
                outputs.append(await ask(client, family, prompt, sampling))
                prompt = [*prompt, *outputs[-1].token_ids, *text(30, 10 + turn), END_OF_MESSAGE, *text(4, 99)]
        assert [output.token_ids for output in outputs] == await cold(family, prompts, sampling)
        # Every turn restores everything except the new message.
        assert all(output.num_cached >= len(prompts[turn]) for turn, output in enumerate(outputs[1:]))

    asyncio.run(run())


@pytest.mark.parametrize("family", [*FAMILIES, "gpt_oss"])
def test_partial_matches_equal_cold_run(family: str) -> None:
    async def run() -> None:
        trunk = text(600, 3)
        lengths = (599, 5, 17, 256, 511, 513)
        prompts = [[*trunk[:length], *text(20, length)] for length in lengths]
        async with running_engine(family, settings=WARM) as client:
            await ask(client, family, trunk)
            warm = [await ask(client, family, prompt) for prompt in prompts]
        assert [output.token_ids for output in warm] == await cold(family, prompts)
        if family == "qwen3":
            assert [output.num_cached for output in warm] == [599, 0, 17, 256, 511, 513]

    asyncio.run(run())


@pytest.mark.parametrize("family", FAMILIES)
def test_concurrent_rows_share_a_hit_without_interference(family: str) -> None:
    async def run() -> None:
        trunk = [*text(400, 4), END_OF_MESSAGE]
        # Prompts after which rounding never decides between the two best tokens.
        prompts = [[*trunk, *text(10 + agent, 350 + agent)] for agent in range(4)]
        async with running_engine(family, settings=WARM) as client:
            await ask(client, family, [*trunk, *text(9, 1)])
            warm = await asyncio.gather(*(ask(client, family, prompt) for prompt in prompts))
            again = await asyncio.gather(*(ask(client, family, prompt) for prompt in prompts))
        expected = await cold(family, prompts)
        assert [output.token_ids for output in warm] == expected
        assert [output.token_ids for output in again] == expected
        assert all(output.num_cached >= 401 for output in warm)

    asyncio.run(run())


@pytest.mark.parametrize("family", ["qwen3", "lfm2"])
def test_concurrent_requests_compute_cold_prefix_once(family: str) -> None:
    async def run() -> None:
        trunk = [*text(800, 5), END_OF_MESSAGE]
        prompts = [[*trunk, *text(10, 70 + agent)] for agent in range(5)]
        async with running_engine(family, settings=WARM) as client:
            outputs = await asyncio.gather(*(ask(client, family, prompt) for prompt in prompts))
            stats = await client.stats()
        assert [output.token_ids for output in outputs] == await cold(family, prompts)
        assert stats.num_prompt_tokens <= 1.1 * len(prompts[0])

    asyncio.run(run())


@pytest.mark.parametrize("family", ["qwen3", "lfm2"])
def test_partial_prefill_of_cancelled_request_is_reused(family: str) -> None:
    async def run() -> None:
        prompt = text(1000, 6)
        async with running_engine(family, settings=replace(WARM, prefill_pass_max_tokens=128)) as client:
            leaving = submit(client, family, prompt, stop=frozenset({END_OF_MESSAGE}))
            num_read = 0
            while num_read < 300:
                num_read = max(update.num_processed or 0 for update in await leaving.next())
            leaving.cancel()
            retry = await ask(client, family, prompt)
        assert retry.num_cached >= 256
        assert [retry.token_ids] == await cold(family, [prompt])

    asyncio.run(run())


@pytest.mark.parametrize("family", FAMILIES)
def test_outputs_are_equal_after_eviction(family: str) -> None:
    async def run() -> None:
        prompts = [text(300, seed) for seed in range(4)]
        small = EngineSettings(max_rows=2, prefix_cache_bytes=400_000)
        async with running_engine(family, settings=small) as client:
            first = [(await ask(client, family, prompt)).token_ids for prompt in prompts]
            second = [(await ask(client, family, prompt)).token_ids for prompt in prompts]
            stats = await client.stats()
        assert first == second == await cold(family, prompts)
        assert stats.cache_evicted > 0
        assert stats.cache_bytes <= 400_000

    asyncio.run(run())


def test_prefixes_are_not_shared_between_models() -> None:
    async def run() -> None:
        prompt = text(300, 8)
        async with running_engine("qwen3", "mistral", settings=WARM) as client:
            await ask(client, "qwen3", prompt)
            other = await ask(client, "mistral", prompt)
        assert other.num_cached == 0

    asyncio.run(run())
