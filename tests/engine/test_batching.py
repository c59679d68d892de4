"""Batched output equals single output, token for token."""

import asyncio
import math
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher

from mlxctl.engine import EngineClient, TokenStream
from mlxctl.ir import Guidance, Repetition, SamplingParams, ThinkingLimit, ToneCurve
from mlxctl.state.settings import EngineSettings
from tests.engine.harness import Output, finish, running_engine, submit

# Plain attention, sliding window, short convolutions, linear attention with experts.
END = 3
FAMILIES = ["qwen3", "gemma3", "lfm2", "qwen3_next"]

# Small chunks, so that prompts are read in several slices and rows join while others are in the middle.
# Nothing is taken from the prefix cache here: that it gives the same tokens has its own tests.
SMALL_CHUNKS = EngineSettings(max_rows=6, prefill_pass_max_tokens=16, prefix_cache_bytes=0)


@dataclass(frozen=True)
class Job:
    """One request: arrival, text, length, and whether its client disconnects."""

    prompt: tuple[int, ...]
    max_tokens: int
    sampling: SamplingParams
    guidance: Guidance | None
    delay_steps: int
    leaves_after: int | None


def samplings() -> st.SearchStrategy[SamplingParams]:
    greedy = st.builds(
        SamplingParams, temperature=st.just(0.0), repetition_penalty=st.sampled_from([1.0, 1.3])
    )
    seeded = st.builds(
        SamplingParams,
        temperature=st.sampled_from([0.5, 1.0, 1.7]),
        top_p=st.sampled_from([1.0, 0.8]),
        top_k=st.sampled_from([0, 1, 30]),
        min_p=st.sampled_from([0.0, 0.02]),
        presence_penalty=st.sampled_from([0.0, 0.7]),
        frequency_penalty=st.sampled_from([0.0, 0.4]),
        logit_bias=st.sampled_from([{}, {40: 3.0, 41: -100.0}]),
        seed=st.integers(0, 2**63 - 1),
        num_top_logprobs=st.sampled_from([None, 0, 4]),
        typical_p=st.sampled_from([1.0, 0.6]),
        xtc_probability=st.sampled_from([0.0, 0.5]),
        xtc_threshold=st.just(0.01),
        tone_curve=st.sampled_from([None, ToneCurve(width=1.0)]),
        repetition=st.sampled_from([None, Repetition(multiplier=2.0, allowed_length=1, num_last=32)]),
    )
    return st.one_of(greedy, seeded)


def guidances() -> st.SearchStrategy[Guidance | None]:
    limits = st.builds(
        ThinkingLimit,
        max_tokens=st.integers(0, 6),
        is_open=st.booleans(),
        opener_ids=st.just((21,)),
        closer_ids=st.sampled_from([(40,), (40, 41)]),
        closing_ids=st.just((30, 40, 41)),
    )
    forms = st.sampled_from(
        [
            LLMatcher.grammar_from_regex("[a-z ]*"),
            LLMatcher.grammar_from_lark('start: ("ab" | "c" /[0-9]+/)*'),
        ]
    )
    return st.one_of(st.none(), st.builds(Guidance, thinking=limits), st.builds(Guidance, grammar=forms))


def jobs() -> st.SearchStrategy[list[Job]]:
    job = st.builds(
        Job,
        prompt=st.lists(st.integers(10, 500), min_size=1, max_size=70).map(tuple),
        max_tokens=st.integers(1, 16),
        sampling=samplings(),
        guidance=guidances(),
        delay_steps=st.integers(0, 12),
        leaves_after=st.one_of(st.none(), st.none(), st.integers(1, 10)),
    )
    return st.lists(job, min_size=2, max_size=5)


async def run_alone(client: EngineClient, model: str, job: Job) -> Output:
    return await finish(start(client, model, job))


def start(client: EngineClient, model: str, job: Job) -> TokenStream:
    return submit(
        client, model, job.prompt, max_tokens=job.max_tokens, sampling=job.sampling, guidance=job.guidance
    )


async def run_beside_others(client: EngineClient, model: str, job: Job) -> Output:
    await asyncio.sleep(job.delay_steps * 0.002)
    stream = start(client, model, job)
    if job.leaves_after is None:
        return await finish(stream)
    output = Output()
    while len(output.token_ids) < job.leaves_after and (updates := await stream.next()):
        for update in updates:
            output.token_ids += update.token_ids
            output.scores += update.scores
    stream.cancel()
    return output


def assert_same(alone: Output, beside: Output) -> None:
    num = len(beside.token_ids)
    assert beside.token_ids == alone.token_ids[:num]
    assert len(beside.scores) == len(alone.scores[:num])
    for one, other in zip(alone.scores, beside.scores, strict=False):
        assert math.isclose(one.logprob, other.logprob, abs_tol=1e-4)
        assert [token_id for token_id, _ in one.top] == [token_id for token_id, _ in other.top]


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=3, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(scenario=jobs())
def test_rows_that_join_and_leave_get_the_tokens_of_single_rows(family: str, scenario: list[Job]) -> None:
    async def run() -> None:
        async with running_engine(family, settings=SMALL_CHUNKS) as client:
            alone = [await run_alone(client, family, job) for job in scenario]
            beside = await asyncio.gather(*(run_beside_others(client, family, job) for job in scenario))
        for job, one, other in zip(scenario, alone, beside, strict=True):
            if job.leaves_after is None:
                assert len(one.token_ids) == len(other.token_ids) == job.max_tokens
            assert_same(one, other)

    asyncio.run(run())


@pytest.mark.parametrize("family", [*FAMILIES, "gpt_oss"])
@settings(max_examples=2, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    lengths=st.lists(st.integers(1, 40), min_size=3, max_size=5),
    shared=st.sampled_from([0, 1, 70]),
    sampling=samplings(),
)
def test_simultaneous_short_prompts_get_the_tokens_of_single_rows(
    family: str, lengths: list[int], shared: int, sampling: SamplingParams
) -> None:
    trunk = list(range(100, 100 + shared))
    prompts = [
        [*trunk, *range(10 + 7 * place, 10 + 7 * place + length), END] for place, length in enumerate(lengths)
    ]

    async def run() -> None:
        async with running_engine(
            family, settings=EngineSettings(max_rows=8, prefix_cache_bytes=0)
        ) as client:
            alone = [await finish(submit(client, family, prompt, sampling=sampling)) for prompt in prompts]
        async with running_engine(family, settings=EngineSettings(max_rows=8)) as client:
            ends = frozenset({END})
            for round_of_two in ("cold", "warm"):
                beside = await asyncio.gather(
                    *(
                        finish(submit(client, family, prompt, sampling=sampling, stop=ends))
                        for prompt in prompts
                    )
                )
                for one, other in zip(alone, beside, strict=True):
                    assert other.token_ids, round_of_two
                    assert_same(one, other)

    asyncio.run(run())


def test_seed_determines_the_tokens_across_engines() -> None:
    async def draw(seed: int) -> list[int]:
        sampling = SamplingParams(temperature=1.0, seed=seed)
        async with running_engine("qwen3") as client:
            return (
                await finish(submit(client, "qwen3", range(20, 40), max_tokens=12, sampling=sampling))
            ).token_ids

    first, again, other = asyncio.run(draw(7)), asyncio.run(draw(7)), asyncio.run(draw(8))

    assert first == again
    assert first != other


def test_prefill_slices_of_any_size_give_equal_tokens() -> None:
    async def answer(chunk: int) -> list[int]:
        chosen = EngineSettings(prefill_pass_max_tokens=chunk, prefix_cache_bytes=0)
        async with running_engine("gemma3", "lfm2", settings=chosen) as client:
            outputs = [
                await finish(submit(client, name, range(30, 130), max_tokens=10))
                for name in ("gemma3", "lfm2")
            ]
        return outputs[0].token_ids + outputs[1].token_ids

    assert asyncio.run(answer(7)) == asyncio.run(answer(2048))
