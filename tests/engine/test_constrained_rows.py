"""Structured output beside unconstrained rows in a running engine."""

import asyncio
import re

import pytest
from llguidance import LLMatcher
from tokenizers import Tokenizer

from mlxctl.engine import EngineClient
from mlxctl.ir import Guidance, Repetition, SamplingParams, ThinkingLimit
from mlxctl.ir.errors import SequenceFailed
from tests import tiny_models
from tests.engine.harness import finish, running_engine, submit

MODEL = "qwen3"
PROMPT = range(20, 60)
END = 503
TOKENIZER = Tokenizer.from_file(str(tiny_models.model(MODEL) / "tokenizer.json"))


def regex(pattern: str) -> Guidance:
    return Guidance(grammar=LLMatcher.grammar_from_regex(pattern), eos_token_ids=(END,))


def text(token_ids: list[int]) -> str:
    return TOKENIZER.decode(token_ids, skip_special_tokens=True)


async def answer(
    client: EngineClient, guidance: Guidance | None, *, seed: int = 0, max_tokens: int = 30
) -> tuple[list[int], str]:
    """Return a row's output and finish reason."""
    sampling = SamplingParams(temperature=1.5, seed=seed)
    stream = submit(
        client,
        MODEL,
        PROMPT,
        max_tokens=max_tokens,
        sampling=sampling,
        stop=frozenset({END}),
        guidance=guidance,
    )
    output = await finish(stream)
    assert output.last is not None
    return output.token_ids, str(output.last.finish_reason)


def test_rows_follow_their_grammars_and_end_when_complete() -> None:
    patterns = ["[0-9]{4}", "(yes|no)", "[a-z]+ [a-z]{2}!"]

    async def run() -> None:
        async with running_engine(MODEL) as client:
            free = answer(client, None)
            *held, _ = await asyncio.gather(
                *(answer(client, regex(pattern), seed=1) for pattern in patterns), free
            )
            short, reason = await answer(client, regex("[0-9]{9}"), max_tokens=3)
        for pattern, (token_ids, why) in zip(patterns, held, strict=True):
            if why == "stop":
                assert token_ids[-1] == END
                assert re.fullmatch(pattern, text(token_ids[:-1]))
        assert [why for _, why in held[:2]] == ["stop", "stop"]
        assert reason == "length"
        assert re.fullmatch("[0-9]+", text(short))

    asyncio.run(run())


def test_unusable_grammar_fails_only_its_row() -> None:
    async def run() -> None:
        async with running_engine(MODEL) as client:
            free = asyncio.create_task(answer(client, None))
            with pytest.raises(SequenceFailed, match="nowhere"):
                await answer(client, Guidance(grammar='{"grammars": [{"lark_grammar": "start: nowhere"}]}'))
            with pytest.raises(SequenceFailed, match="does not accept the prefix"):
                await answer(client, Guidance(grammar=regex("a").grammar, grammar_start="b"))
            assert (await free)[0]
            assert (await answer(client, regex("(yes|no)")))[1] == "stop"

    asyncio.run(run())


def test_request_can_be_cancelled_during_compilation() -> None:
    async def run() -> None:
        async with running_engine(MODEL) as client:
            for _ in range(5):
                submit(client, MODEL, PROMPT, guidance=regex("[a-z]*")).cancel()
            assert (await answer(client, regex("(yes|no)")))[1] == "stop"
            stats = await client.stats()
            assert (stats.num_waiting, stats.num_decoding) == (0, 0)

    asyncio.run(run())


def test_thinking_ends_at_limit_in_engine() -> None:
    limit = ThinkingLimit(
        max_tokens=4, is_open=True, opener_ids=(506,), closer_ids=(507,), closing_ids=(10, 507, 10)
    )

    async def run() -> None:
        async with running_engine(MODEL) as client:
            held, _ = await answer(client, Guidance(thinking=limit), seed=3)
            free, _ = await answer(client, None, seed=3)
        assert held[:4] == free[:4]
        assert held[4:7] == [10, 507, 10]

    asyncio.run(run())


def test_repetition_penalty_stops_loop() -> None:
    loop = [30, 31, 32, 33] * 6
    strong = Repetition(multiplier=50.0, allowed_length=2)

    async def run() -> list[list[int]]:
        async with running_engine(MODEL) as client:
            streams = [
                submit(
                    client,
                    MODEL,
                    loop,
                    max_tokens=40,
                    sampling=SamplingParams(temperature=0, repetition=repetition),
                )
                for repetition in (None, strong)
            ]
            return [(await finish(stream)).token_ids for stream in streams]

    free, held = asyncio.run(run())

    def repeats(token_ids: list[int]) -> int:
        triples = [tuple(token_ids[index : index + 4]) for index in range(len(token_ids) - 3)]
        return len(triples) - len(set(triples))

    assert repeats(loop + held) == repeats(loop)
    assert repeats(loop + free) >= repeats(loop + held)
