"""Speculative decoding gives the tokens and scores of decoding token by token."""

import asyncio
import math
from collections import abc
from dataclasses import replace
from random import Random
from typing import Any, ClassVar

import pytest
from llguidance import LLMatcher
from mlx_lm.models.cache import ChunkedKVCache
from mlx_lm.utils import load_model

from mlxctl.engine import EngineClient
from mlxctl.engine.backend import METAL
from mlxctl.engine.generation.measurement import measure
from mlxctl.engine.lora.lora_adapters import LoraAdapters
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.engine.speculation import draft_steps
from mlxctl.engine.speculation.draft_steps import DraftSteps
from mlxctl.engine.speculation.policy import gate_store
from mlxctl.engine.speculation.policy.draft_counts import DraftCounts
from mlxctl.engine.speculation.policy.drafter import NO_DRAFT, Draft
from mlxctl.engine.speculation.policy.gate import DraftOdds, SpeculationGate
from mlxctl.engine.speculation.policy.prompt_lookup import PromptLookup
from mlxctl.ir import Guidance, ModelSpec, SamplingParams, TextGenerationTask, ThinkingLimit
from mlxctl.ir.model_spec import DraftModelSpec, TextModelOptions
from mlxctl.state.settings import EngineSettings
from tests import tiny_models
from tests.engine.harness import GREEDY, Output, finish, running_engine, submit

# Plain attention, sliding window, short convolutions, linear attention with experts.
FAMILIES = ["qwen3", "gemma3", "lfm2", "qwen3_next"]
SETTINGS = EngineSettings(max_rows=8, prefix_cache_bytes=0, speculation="auto")
NUM_TOKENS = 40
SEEDED = SamplingParams(temperature=0.9, top_p=0.9, seed=11, num_top_logprobs=2)
PENALIZED = SamplingParams(
    temperature=0.8, seed=5, repetition_penalty=1.3, presence_penalty=0.4, frequency_penalty=0.3, min_tokens=9
)


class OpenGate(SpeculationGate):
    """Uses every draft, whatever it costs."""

    def block_length(self, width: int, context: int, drafts: abc.Sequence[DraftOdds]) -> int:
        return max((each.num_tokens for each in drafts), default=0)


class Rehearsed(PromptLookup):
    """Drafts known answers, with wrong tokens in between.

    `answers` holds them by prompt.
    """

    answers: ClassVar[dict[tuple[int, ...], list[int]]] = {}
    random: ClassVar[Random] = Random(3)

    def draft(self, rows: abc.Sequence[Sequence], max_tokens: abc.Sequence[int]) -> list[Draft]:
        return [self._rehearsed(row, num) for row, num in zip(rows, max_tokens, strict=True)]

    def _rehearsed(self, row: Sequence, num: int) -> Draft:
        answer = self.answers.get(tuple(row.prompt_token_ids[: row.num_client_tokens]), [])
        start, length = len(row.output_token_ids), self.random.randint(0, num)
        tokens = answer[start : start + length]
        if len(tokens) > 1 and self.random.random() < 0.7:
            tokens[self.random.randrange(len(tokens))] = 9
        return Draft(tuple(tokens)) if tokens else NO_DRAFT


@pytest.fixture(autouse=True)
def rehearsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_store, "SpeculationGate", OpenGate)
    monkeypatch.setattr(draft_steps, "PromptLookup", Rehearsed)
    Rehearsed.answers = {}


async def run(
    client: EngineClient, model: str, prompt: abc.Sequence[int], sampling: SamplingParams, **more: Any
) -> Output:
    return await finish(submit(client, model, prompt, max_tokens=NUM_TOKENS, sampling=sampling, **more))


async def rehearse(
    client: EngineClient, model: str, prompt: abc.Sequence[int], sampling: SamplingParams, **more: Any
) -> Output:
    """Return the answer without drafts, which is drafted from then on."""
    plain = await run(client, model, prompt, replace(sampling, speculation=False), **more)
    Rehearsed.answers[tuple(prompt)] = plain.token_ids
    return plain


def prompts(num: int, *, seed: int) -> list[list[int]]:
    random = Random(seed)
    return [[random.randrange(10, 500) for _ in range(random.randint(2, 70))] for _ in range(num)]


def test_settings_off_and_request_off_use_no_drafts() -> None:
    async def check() -> None:
        prompt = prompts(1, seed=2)[0]
        async with running_engine("qwen3", settings=SETTINGS) as client:
            await rehearse(client, "qwen3", prompt, GREEDY)
            refused = await run(client, "qwen3", prompt, replace(GREEDY, speculation=False))
        async with running_engine("qwen3", settings=replace(SETTINGS, speculation="off")) as client:
            off = await run(client, "qwen3", prompt, GREEDY)
        assert refused.num_accepted == refused.num_rejected == 0
        assert off.num_accepted == off.num_rejected == 0

    asyncio.run(check())


def test_stop_token_inside_a_draft_ends_the_answer() -> None:
    async def check() -> None:
        prompt = prompts(1, seed=3)[0]
        async with running_engine("qwen3", settings=SETTINGS) as client:
            plain = await rehearse(client, "qwen3", prompt, SEEDED)
            stop = frozenset({plain.token_ids[17]})
            end = plain.token_ids.index(plain.token_ids[17]) + 1
            stopped = await run(client, "qwen3", prompt, SEEDED, stop=stop)
        assert stopped.token_ids == plain.token_ids[:end]
        assert stopped.num_accepted
        assert stopped.last is not None
        assert stopped.last.finish_reason == "stop"

    asyncio.run(check())


def test_prefix_cache_stores_only_emitted_tokens() -> None:
    async def check(model: str) -> None:
        prompt = prompts(1, seed=4)[0] * 3
        async with running_engine(model, settings=replace(SETTINGS, prefix_cache_bytes=1 << 26)) as client:
            plain = await rehearse(client, model, prompt, SEEDED)
        async with running_engine(model, settings=replace(SETTINGS, prefix_cache_bytes=1 << 26)) as client:
            drafted = await run(client, model, prompt, SEEDED)
            turn = [*prompt, *drafted.token_ids, 33, 34]
            next_turn = await run(client, model, turn, GREEDY)
        async with running_engine(model, settings=SETTINGS) as client:
            fresh = await run(client, model, turn, GREEDY)
        assert drafted.token_ids == plain.token_ids
        assert drafted.num_rejected
        assert next_turn.num_cached == len(prompt) + NUM_TOKENS - 1
        assert next_turn.token_ids == fresh.token_ids

    for model in ("qwen3", "qwen3_next"):
        asyncio.run(check(model))


def test_message_names_the_model_whose_caches_cannot_roll_back(caplog: pytest.LogCaptureFixture) -> None:
    model, _ = load_model(tiny_models.model("qwen3"), lazy=True)
    weights = replace(measure(model, 0.0), create_caches=lambda: [ChunkedKVCache(64)])
    DraftSteps.of_model(
        weights,
        LoraAdapters(model),
        gate_store.GateStore(None),
        DraftCounts(),
        name="m",
        digest="",
        settings=EngineSettings(speculation="lookup"),
        backend=METAL,
    )
    assert "model m decodes without drafts: its layers keep their state in a ChunkedKVCache" in caplog.text


def with_draft(name: str) -> ModelSpec:
    draft = DraftModelSpec(path=tiny_models.model("qwen3"), weights_bytes=1)
    task = TextGenerationTask(options=TextModelOptions(draft=draft))
    return ModelSpec(name=name, path=tiny_models.model(name), weights_bytes=1, task=task)


@pytest.mark.parametrize("model", ["qwen3", "gemma3"])
def test_draft_model_changes_no_token(model: str) -> None:
    jobs = [(prompt, SEEDED if index % 2 else GREEDY) for index, prompt in enumerate(prompts(2, seed=6))]
    settings = replace(SETTINGS, speculation="draft")

    async def check() -> None:
        async with running_engine(models=[with_draft(model)], settings=settings) as client:
            plain = [
                await run(client, model, prompt, replace(sampling, speculation=False))
                for prompt, sampling in jobs
            ]
            alone = [await run(client, model, prompt, sampling) for prompt, sampling in jobs]
            together = await asyncio.gather(
                *(run(client, model, prompt, sampling) for prompt, sampling in jobs)
            )
        for each, one, beside in zip(plain, alone, together, strict=True):
            assert_same(one, each)
            assert_same(beside, each)
            assert one.num_accepted + one.num_rejected
            # The same model with the same noise is always right.
            assert model != "qwen3" or not one.num_rejected

    asyncio.run(check())


def test_long_prompt_reaches_the_draft_model_in_slices() -> None:
    async def check() -> None:
        prompt = prompts(1, seed=7)[0] * 20
        settings = replace(SETTINGS, speculation="draft")
        async with running_engine(models=[with_draft("qwen3")], settings=settings) as client:
            plain = await run(client, "qwen3", prompt, replace(GREEDY, speculation=False))
            drafted = await run(client, "qwen3", prompt, GREEDY)
        assert len(prompt) > 300
        assert_same(drafted, plain)
        assert drafted.num_accepted
        assert not drafted.num_rejected

    asyncio.run(check())


@pytest.mark.parametrize("limit", [0, 3, 12])
def test_thinking_budget_closes_at_the_same_token(limit: int) -> None:
    guidance = Guidance(
        thinking=ThinkingLimit(
            max_tokens=limit, is_open=limit != 3, opener_ids=(21,), closer_ids=(40,), closing_ids=(30, 40, 41)
        )
    )

    async def check() -> None:
        prompt = prompts(1, seed=5)[0]
        async with running_engine("qwen3", settings=SETTINGS) as client:
            plain = await rehearse(client, "qwen3", prompt, SEEDED, guidance=guidance)
            drafted = await run(client, "qwen3", prompt, SEEDED, guidance=guidance)
        assert_same(drafted, plain)
        assert drafted.num_accepted

    asyncio.run(check())


def test_drafts_under_a_grammar_change_no_token() -> None:
    guidance = Guidance(grammar=LLMatcher.grammar_from_regex(r"([a-z]{1,6} [0-9]{1,3}, ){4,30}\."))
    jobs = list(zip(prompts(3, seed=8), (GREEDY, SEEDED, PENALIZED), strict=True))

    async def check() -> None:
        async with running_engine("qwen3", settings=SETTINGS) as client:
            plain = [await rehearse(client, "qwen3", *job, guidance=guidance) for job in jobs]
            free = await rehearse(client, "qwen3", prompts(1, seed=9)[0], SEEDED)
            alone = [await run(client, "qwen3", *job, guidance=guidance) for job in jobs]
            *together, beside = await asyncio.gather(
                *(run(client, "qwen3", *job, guidance=guidance) for job in jobs),
                run(client, "qwen3", prompts(1, seed=9)[0], SEEDED),
            )
        assert_same(beside, free)
        for each, one, batched in zip(plain, alone, together, strict=True):
            assert_same(one, each)
            assert_same(batched, each)
            assert one.num_accepted > NUM_TOKENS // 4

    asyncio.run(check())


def assert_same(speculated: Output, plain: Output) -> None:
    assert speculated.token_ids == plain.token_ids
    assert len(speculated.scores) == len(plain.scores)
    for mine, other in zip(speculated.scores, plain.scores, strict=True):
        assert math.isclose(mine.logprob, other.logprob, abs_tol=1e-3)


@pytest.mark.parametrize("model", FAMILIES)
def test_speculation_changes_no_token_alone_and_in_a_batch(model: str) -> None:
    asyncio.run(check_same_tokens(model))


async def check_same_tokens(model: str) -> None:
    jobs = [
        (prompt, sampling)
        for index, prompt in enumerate(prompts(3, seed=1))
        for sampling in [(GREEDY, SEEDED, PENALIZED)[index % 3]]
    ]
    async with running_engine(model, settings=SETTINGS) as client:
        plain = [await rehearse(client, model, prompt, sampling) for prompt, sampling in jobs]
        alone = [await run(client, model, prompt, sampling) for prompt, sampling in jobs]
        together = await asyncio.gather(*(run(client, model, prompt, sampling) for prompt, sampling in jobs))
    for each, one, beside in zip(plain, alone, together, strict=True):
        assert_same(one, each)
        assert_same(beside, each)
        assert one.num_accepted > NUM_TOKENS // 4
        assert one.num_rejected
    assert sum(each.num_accepted for each in together) > NUM_TOKENS
