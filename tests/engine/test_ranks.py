"""Two ranks answer like one process."""

import asyncio
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from mlxctl.engine import EngineClient
from mlxctl.ir import Guidance, ModelSpec, SamplingParams
from mlxctl.ir.errors import InvalidRequest, RanksUnavailable
from mlxctl.state.settings import EngineSettings
from tests import tiny_models
from tests.engine.harness import GREEDY, Output, finish, running_engine, submit

RANDOM = random.Random(5)
PROMPTS = [[RANDOM.randrange(20, 300) for _ in range(length)] for length in (9, 60, 41, 90)]
SAMPLINGS = [
    SamplingParams(temperature=0, num_top_logprobs=2),
    SamplingParams(temperature=0.9, seed=3),
    GREEDY,
    SamplingParams(temperature=1.2, seed=4, top_p=0.9, repetition_penalty=1.1),
]
# Sums over two ranks are rounded elsewhere: float32 has 7 digits.
TOLERANCE = 2e-4
SETTINGS = EngineSettings(max_rows=3, prefix_cache_bytes=3_000_000)


class Engine:
    """An engine with its event loop, for several tests."""

    def __init__(self, runner: asyncio.Runner, settings: EngineSettings, *models: str) -> None:
        self.runner = runner
        self._running = running_engine(*models, settings=settings)
        self.client = runner.run(self._running.__aenter__())

    def close(self) -> None:
        self.runner.run(self._running.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def engines() -> Iterator[list[Engine]]:
    """One process, and two ranks."""
    with asyncio.Runner() as runner:
        started = [
            Engine(runner, replace(SETTINGS, ranks=ranks), *tiny_models.RANK_NAMES) for ranks in (1, 2)
        ]
        yield started
        for engine in started:
            engine.close()


@pytest.fixture
def pipeline() -> Iterator[Engine]:
    """Two ranks, each with half of the layers."""
    with asyncio.Runner() as runner:
        engine = Engine(runner, replace(SETTINGS, ranks=2, parallel="pipeline"), *tiny_models.PIPELINE_NAMES)
        yield engine
        engine.close()


async def conversation(client: EngineClient, model: str) -> list[Output]:
    """Concurrent prompts, one of them cancelled, then the next turns."""
    leaving = submit(client, model, PROMPTS[2], max_tokens=10_000)
    running = [
        asyncio.ensure_future(finish(submit(client, model, prompt, max_tokens=8, sampling=sampling)))
        for prompt, sampling in zip(PROMPTS, SAMPLINGS, strict=True)
    ]
    await leaving.next()
    leaving.cancel()
    first = await asyncio.gather(*running)
    turns = [[*prompt, *output.token_ids, 30, 31, 32] for prompt, output in zip(PROMPTS, first, strict=True)]
    return [
        *first,
        *await asyncio.gather(*(finish(submit(client, model, turn, max_tokens=4)) for turn in turns)),
    ]


@pytest.mark.parametrize("model", tiny_models.RANK_NAMES)
def test_concurrent_conversations_get_the_same_tokens(engines: list[Engine], model: str) -> None:
    alone, ranked = (each.runner.run(conversation(each.client, model)) for each in engines)

    assert [output.token_ids for output in ranked] == [output.token_ids for output in alone]
    assert all(output.num_cached for output in ranked[5:])
    assert logprobs(ranked) == pytest.approx(logprobs(alone), abs=TOLERANCE)


def test_pipeline_gives_the_same_tokens(engines: list[Engine], pipeline: Engine) -> None:
    for model in tiny_models.PIPELINE_NAMES:
        alone, ranked = (each.runner.run(conversation(each.client, model)) for each in (engines[0], pipeline))
        assert [output.token_ids for output in ranked] == [output.token_ids for output in alone]
        assert logprobs(ranked) == pytest.approx(logprobs(alone), abs=TOLERANCE)


def logprobs(outputs: list[Output]) -> list[float]:
    return [score.logprob for output in outputs for score in (*output.scores, *output.prompt_scores)]


def test_grammars_and_scores_of_prompts_are_the_same(engines: list[Engine]) -> None:
    # Some tokens are forced, which one process computes in one pass.
    grammar = json.dumps({"grammars": [{"lark_grammar": 'start: "name: " /[0-9]{3}/ " of a longer text"'}]})
    digits = Guidance(grammar=grammar, eos_token_ids=(503,))

    async def ask(client: EngineClient) -> list[Output]:
        fields: list[dict[str, Any]] = [{"guidance": digits}, {"scores_prompt": True}]
        return await asyncio.gather(
            *(finish(submit(client, "qwen3", PROMPTS[1], max_tokens=16, **each)) for each in fields)
        )

    alone, ranked = (each.runner.run(ask(each.client)) for each in engines)

    assert [output.token_ids for output in ranked] == [output.token_ids for output in alone]
    assert len(ranked[1].prompt_scores) == len(PROMPTS[1]) - 1
    assert logprobs(ranked) == pytest.approx(logprobs(alone), abs=TOLERANCE)


def test_random_operations_give_the_tokens_of_each_prompt_alone(engines: list[Engine]) -> None:
    """Joins, cancels and preemptions, with a prefix cache that evicts."""
    alone, ranked = engines
    draw = random.Random(11)
    prompts = [prompt[: draw.randrange(8, len(prompt))] for prompt in PROMPTS * 2]
    wanted = {
        index: alone.runner.run(finish(submit(alone.client, "qwen3", prompt, max_tokens=10))).token_ids
        for index, prompt in enumerate(prompts)
    }

    async def run(client: EngineClient) -> int:
        num_right = 0

        async def follow(index: int, *, leaves: bool) -> None:
            nonlocal num_right
            stream = submit(
                client, "qwen3", prompts[index], max_tokens=10, fairness_key=f"caller {index % 3}"
            )
            if leaves:
                await stream.next()
                stream.cancel()
                return
            assert (await finish(stream)).token_ids == wanted[index]
            num_right += 1

        open_tasks: set[asyncio.Task[None]] = set()
        for _ in range(30):
            index = draw.randrange(len(prompts))
            open_tasks.add(asyncio.create_task(follow(index, leaves=draw.random() < 0.3)))
            if len(open_tasks) >= 8 or draw.random() < 0.2:
                _, open_tasks = await asyncio.wait(open_tasks, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.gather(*open_tasks)
        return num_right

    num_right = ranked.runner.run(asyncio.wait_for(run(ranked.client), 120))

    assert num_right > 15


def test_ranks_hold_equal_shares_of_weights_and_caches(engines: list[Engine]) -> None:
    client = engines[1].client

    async def differs() -> bool:
        stats = await client.stats()
        return abs(stats.rank_memory_bytes[1] / stats.active_memory_bytes - 1) > 0.05

    async def wait_until_equal() -> None:
        async with asyncio.timeout(60):
            while await differs():
                await asyncio.sleep(0.05)

    engines[1].runner.run(wait_until_equal())
    weights = [each.client.loaded["qwen3"].weights_bytes for each in engines]
    # Embeddings and the head are whole on both ranks.
    assert weights[1] < 0.75 * weights[0]


def test_model_that_ranks_cannot_split_is_refused_by_name(engines: list[Engine]) -> None:
    client = engines[1].client
    spec = ModelSpec(name="mamba", path=tiny_models.model("mamba"), weights_bytes=1)

    with pytest.raises(RanksUnavailable, match="architecture mamba is not proven on several ranks"):
        engines[1].runner.run(client.load(spec))


def test_quantized_prefix_cache_is_refused_by_name(engines: list[Engine]) -> None:
    client = engines[1].client

    with pytest.raises(InvalidRequest, match="prefix_cache_bits must be full on several ranks"):
        client.configure_cache(msgspec.structs.replace(client.cache_policy, prefix_cache_bits="8"))
