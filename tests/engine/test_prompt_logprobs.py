"""Prompt log-probabilities equal mlx_lm's; prompts can be prefilled without output."""

import asyncio
import random

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm import load

from mlxctl.engine import EngineClient
from mlxctl.engine.generation import prompt_scores
from mlxctl.ir import CacheOptions, SamplingParams
from mlxctl.state.settings import EngineSettings
from tests import tiny_models
from tests.engine.harness import Output, finish, running_engine, submit

# Plain attention, sliding window, short convolutions, linear attention with experts.
FAMILIES = ["qwen3", "gemma3", "lfm2", "qwen3_next"]
SMALL_CHUNKS = EngineSettings(max_rows=6, prefill_pass_max_tokens=16)
SCORED = SamplingParams(temperature=0, num_top_logprobs=3)
_NUMBERS = random.Random(5)
PROMPTS = [[_NUMBERS.randrange(10, 500) for _ in range(num)] for num in (1, 2, 17, 90)]


def by_mlx_lm(name: str, prompt: list[int]) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
    """Return mlx_lm's log-probabilities of a prompt, in one pass."""
    model, *_ = load(str(tiny_models.model(name)))
    logits = model(mx.array([prompt]))[0].astype(mx.float32)
    return np.array(logits - mx.logsumexp(logits, axis=-1, keepdims=True))


async def score(client: EngineClient, name: str, prompt: list[int], *, max_tokens: int = 2) -> Output:
    return await finish(
        submit(client, name, prompt, max_tokens=max_tokens, sampling=SCORED, scores_prompt=True)
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_prompt_scores_equal_those_of_one_pass(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_scores, "_LOGITS_BYTES", 5 * 4 * 512)

    async def run() -> list[Output]:
        async with running_engine(name, settings=SMALL_CHUNKS) as client:
            beside = submit(client, name, PROMPTS[2], max_tokens=60)
            # What is known of a prompt has no scores, so it must not be taken over.
            await finish(submit(client, name, PROMPTS[3], max_tokens=1))
            outputs = await asyncio.gather(*(score(client, name, prompt) for prompt in PROMPTS))
            await finish(beside)
        return outputs

    for prompt, output in zip(PROMPTS, asyncio.run(run()), strict=True):
        expected = by_mlx_lm(name, prompt)
        followers = list(enumerate(prompt[1:]))
        reported = [reported.logprob for reported in output.prompt_scores]
        assert reported == pytest.approx([expected[place, token] for place, token in followers], abs=2e-3)
        for place, scores_here in enumerate(output.prompt_scores):
            best = np.sort(expected[place])[::-1][:3]
            assert [logprob for _, logprob in scores_here.top] == pytest.approx(best.tolist(), abs=2e-3)
        assert output.token_ids[0] == expected[-1].argmax()
        assert output.num_cached == 0
        assert len(output.scores) == 2


@pytest.mark.parametrize("scores_prompt", [True, False])
@pytest.mark.parametrize("prompt", PROMPTS, ids=len)
def test_zero_max_tokens_only_prefills(prompt: list[int], scores_prompt: bool) -> None:
    async def run() -> tuple[Output, Output]:
        async with running_engine("qwen3", settings=SMALL_CHUNKS) as client:
            stream = submit(
                client, "qwen3", prompt, max_tokens=0, sampling=SCORED, scores_prompt=scores_prompt
            )
            read = await asyncio.wait_for(finish(stream), 60)
            stats = await client.stats()
            assert (stats.num_waiting, stats.num_prefilling, stats.num_decoding) == (0, 0, 0)
            return read, await finish(submit(client, "qwen3", prompt, max_tokens=3))

    read, after = asyncio.run(run())
    assert read.token_ids == []
    assert read.last is not None
    assert read.last.finish_reason == "length"
    assert len(read.prompt_scores) == (len(prompt) - 1 if scores_prompt else 0)
    # A prefilled prompt is stored unless it is very short; a scored one is not.
    assert after.num_cached == (len(prompt) - 1 if len(prompt) > 2 and not scores_prompt else 0)


def test_prefill_without_output_ends_without_a_cache() -> None:
    async def run() -> Output:
        async with running_engine("qwen3", settings=SMALL_CHUNKS) as client:
            return await finish(
                submit(client, "qwen3", PROMPTS[3], max_tokens=0, cache=CacheOptions(mode="off"))
            )

    assert asyncio.run(run()).token_ids == []
