"""Forced tokens are the tokenizer's own, and several take one pass."""

import asyncio
import json
import math
from collections import abc
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from llguidance import LLMatcher, LLTokenizer
from tokenizers import Tokenizer, decoders
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

from mlxctl.engine import EngineClient, loop
from mlxctl.engine.backend import CPU
from mlxctl.engine.constraints.matcher import GrammarMatcher
from mlxctl.engine.speculation import draft_steps
from mlxctl.engine.speculation.verification import verify_drafts
from mlxctl.ir import Guidance, Repetition, SamplingParams, ThinkingLimit
from mlxctl.library.demo import MODEL_DIR
from mlxctl.state.settings import EngineSettings
from tests import tiny_models
from tests.engine.harness import GREEDY, Output, finish, running_engine, submit

# Plain attention, sliding window, short convolutions, linear attention with experts.
FAMILIES = ["qwen3", "gemma3", "lfm2", "qwen3_next"]
SETTINGS = EngineSettings(max_rows=8, prefix_cache_bytes=0)
END = 503
PROMPT = range(20, 60)
SCORED = SamplingParams(temperature=0.9, seed=3, num_top_logprobs=2)
PENALIZED = SamplingParams(temperature=0.8, seed=5, repetition_penalty=1.3, frequency_penalty=0.3)
CLOSED_AFTER_SIX = ThinkingLimit(
    max_tokens=6, is_open=True, opener_ids=(), closer_ids=(507,), closing_ids=(507,)
)
# Texts around the places where the model chooses.
TEXTS = ("the first is ", " and the other ", ", end")


def pattern(*, places: str = "[a-z]{2}") -> Guidance:
    grammar = LLMatcher.grammar_from_regex(TEXTS[0] + places + TEXTS[1] + places + TEXTS[2])
    return Guidance(grammar=grammar, eos_token_ids=(END,))


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Numbers of forced tokens by row, of every pass that computes some."""
    seen: list[list[int]] = []

    def verify(
        batch: Any, drafts: abc.Sequence[abc.Sequence[int]], states: Any = None, *, are_forced: bool = False
    ) -> Any:
        if are_forced:
            seen.append([len(draft) for draft in drafts])
        return verify_drafts(batch, drafts, states, are_forced=are_forced)

    monkeypatch.setattr(draft_steps, "verify_drafts", verify)
    return seen


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A switch that computes every token in a pass of its own."""
    real = draft_steps.forced_drafts

    def switch(is_on: bool) -> None:
        monkeypatch.setattr(draft_steps, "forced_drafts", (lambda *_, **__: None) if is_on else real)

    return switch


async def answer(
    client: EngineClient,
    model: str,
    guidance: Guidance | None,
    sampling: SamplingParams = GREEDY,
    *,
    start: int = 0,
    max_tokens: int = 80,
) -> Output:
    prompt = [*PROMPT, start + 70]
    stop = frozenset({END})
    return await finish(
        submit(client, model, prompt, max_tokens=max_tokens, sampling=sampling, stop=stop, guidance=guidance)
    )


@pytest.mark.parametrize("model", FAMILIES)
def test_forced_tokens_in_one_pass_change_nothing(
    model: str, blocks: list[list[int]], one_by_one: Any
) -> None:
    jobs = [
        (pattern(), GREEDY),
        (pattern(places="[a-z]{2,6}"), SCORED),
        (pattern(), PENALIZED),
        (None, SCORED),
    ]

    async def check() -> None:
        async with running_engine(model, settings=SETTINGS) as client:
            one_by_one(True)
            plain = [await answer(client, model, *job, start=index) for index, job in enumerate(jobs)]
            assert not blocks
            one_by_one(False)
            alone = [await answer(client, model, *job, start=index) for index, job in enumerate(jobs)]
            assert sum(map(sum, blocks)) > len(TEXTS) * 8
            together = await asyncio.gather(
                *(answer(client, model, *job, start=index) for index, job in enumerate(jobs))
            )
        for each, one, batched in zip(plain, alone, together, strict=True):
            for other in (one, batched):
                assert other.token_ids == each.token_ids
                scores = zip(other.scores, each.scores, strict=True)
                assert all(math.isclose(one.logprob, two.logprob, abs_tol=1e-3) for one, two in scores)
                assert other.num_accepted == other.num_rejected == 0

    asyncio.run(check())


def test_rows_of_one_batch_take_forced_tokens_together(blocks: list[list[int]]) -> None:
    async def check() -> None:
        async with running_engine("qwen3", settings=SETTINGS) as client:
            await asyncio.gather(
                *(answer(client, "qwen3", pattern(), SCORED, start=index) for index in range(3))
            )

    asyncio.run(check())
    assert max(map(len, blocks)) > 1


def test_device_that_must_not_wait_takes_them_as_well(
    blocks: list[list[int]], one_by_one: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        loop, "current_backend", lambda: replace(CPU, starts_decode_late=False, draws_on_host=False)
    )

    async def check() -> None:
        async with running_engine("qwen3", settings=SETTINGS) as client:
            one_by_one(True)
            plain = [await answer(client, "qwen3", pattern(), each) for each in (GREEDY, SCORED)]
            one_by_one(False)
            forced = [await answer(client, "qwen3", pattern(), each) for each in (GREEDY, SCORED)]
        assert [each.token_ids for each in forced] == [each.token_ids for each in plain]
        assert blocks

    asyncio.run(check())


@pytest.mark.parametrize("max_tokens", [1, 2, 5, 20])
def test_forced_tokens_end_at_max_tokens(max_tokens: int) -> None:
    async def check() -> None:
        async with running_engine("qwen3", settings=SETTINGS) as client:
            whole = await answer(client, "qwen3", pattern())
            cut = await answer(client, "qwen3", pattern(), max_tokens=max_tokens)
        assert cut.token_ids == whole.token_ids[:max_tokens]
        assert cut.last is not None
        assert cut.last.finish_reason == "length"

    asyncio.run(check())


@pytest.mark.parametrize(
    "more",
    [
        {"sampling": replace(SCORED, repetition=Repetition(multiplier=2.0))},
        {"thinking": CLOSED_AFTER_SIX},
    ],
)
def test_penalties_and_budgets_apply_between_forced_tokens(more: dict[str, Any], one_by_one: Any) -> None:
    guidance = pattern()
    if "thinking" in more:
        grammar = json.loads(guidance.grammar)["grammars"][0]["lark_grammar"]
        lark = "start: /[a-f ]*/ <[507]> rest\n" + grammar.replace("start", "rest", 1)
        guidance = replace(guidance, grammar=LLMatcher.grammar_from_lark(lark), thinking=more["thinking"])

    async def check() -> None:
        async with running_engine("qwen3", settings=SETTINGS) as client:
            one_by_one(True)
            plain = await answer(client, "qwen3", guidance, more.get("sampling", SCORED))
            one_by_one(False)
            forced = await answer(client, "qwen3", guidance, more.get("sampling", SCORED))
        assert forced.token_ids == plain.token_ids
        assert plain.token_ids[-1] == END

    asyncio.run(check())


def test_forced_text_has_the_tokens_that_the_tokenizer_writes() -> None:
    tokenizer = Tokenizer.from_file(str(tiny_models.model("qwen3") / "tokenizer.json"))

    async def check() -> Output:
        async with running_engine("qwen3", settings=SETTINGS) as client:
            return await answer(client, "qwen3", pattern(places="1"), replace(GREEDY, temperature=2.0))

    written = asyncio.run(check()).token_ids[:-1]
    text = f"{TEXTS[0]}1{TEXTS[1]}1{TEXTS[2]}"
    assert tokenizer.decode(written) == text
    assert written == tokenizer.encode(text, add_special_tokens=False).ids


def test_tokens_that_only_others_could_replace_are_left_out() -> None:
    text = (MODEL_DIR / "tokenizer.json").read_text()
    tokenizer, vocabulary = LLTokenizer(text, eos_token=[0]), Tokenizer.from_str(text)
    matcher = GrammarMatcher(
        tokenizer, json.dumps({"grammars": [{"lark_grammar": 'start: "name" | "number" | "arguments"'}]})
    )
    allowed = {vocabulary.encode(word).ids[0] for word in ("name", "number", "arguments")}

    words = np.zeros((tokenizer.vocab_size + 31) // 32, dtype=np.int32)
    matcher.fill_mask(words)
    bits = np.unpackbits(words.view(np.uint8), bitorder="little")
    assert allowed <= set(np.flatnonzero(bits).tolist())
    assert vocabulary.token_to_id("a") not in np.flatnonzero(bits)


@pytest.mark.parametrize(
    ("grammar", "has_space"),
    [
        ('start: WS? ("true" | "false")\nWS: /[ \\n]+/', False),
        ('start: WS? ("true" | "false" | "7")\nWS: /[ \\n]+/', True),
        # The spaces are part of the value.
        ('start: " true" | "  true" | " false"', True),
    ],
)
def test_space_that_the_tokenizer_would_write_with_the_next_word_is_left_out(
    grammar: str, has_space: bool
) -> None:
    vocabulary = Tokenizer(BPE())
    vocabulary.pre_tokenizer, vocabulary.decoder = ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=300, special_tokens=["<end>"], initial_alphabet=ByteLevel.alphabet(), show_progress=False
    )
    vocabulary.train_from_iterator(["a true, a false, true, false"] * 9, trainer)
    tokenizer = LLTokenizer(vocabulary.to_str(), eos_token=[0])
    matcher = GrammarMatcher(tokenizer, json.dumps({"grammars": [{"lark_grammar": grammar}]}))
    words = np.zeros((tokenizer.vocab_size + 31) // 32, dtype=np.int32)
    matcher.fill_mask(words)
    bits = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))
    assert {"Ġtrue", "Ġfalse"} <= set(map(vocabulary.id_to_token, bits))
    assert ("Ġ" in map(vocabulary.id_to_token, bits)) == has_space
