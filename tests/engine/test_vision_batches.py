"""Rows with images decode in batches as alone, for any cached prefix."""

import asyncio
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlxctl.engine import EngineClient
from mlxctl.ir import ImagePart, TextPart
from tests import tiny_models

from .vision_harness import NUM_TOKENS, answer, noise, prepared, seeing_engine

WORDS = [
    TextPart(text=text)
    for text in ("What is this?", "The sea is wide, and the hills are old. ", "And now? " * 12)
]
PICTURES = [
    noise(seed, width=width, height=height) for seed, width, height in ((1, 64, 32), (2, 16, 90), (3, 40, 40))
]


@dataclass(frozen=True)
class Job:
    """A question, and how many steps it comes after the first."""

    parts: tuple[ImagePart | TextPart, ...]
    delay_steps: int


JOBS = st.lists(
    st.builds(
        Job,
        parts=st.lists(st.sampled_from([*WORDS, *PICTURES]), min_size=1, max_size=4).map(tuple),
        delay_steps=st.integers(0, 12),
    ),
    min_size=2,
    max_size=4,
)


@pytest.mark.parametrize(
    "name", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5_seer", "gemma3_seer", "minicpmv4_6"]
)
@settings(max_examples=2, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(jobs=JOBS)
def test_rows_with_and_without_images_get_the_tokens_of_single_rows(name: str, jobs: list[Job]) -> None:
    model = tiny_models.model(name)
    prompts = [prepared(model, *job.parts) for job in jobs]

    async def later(client: EngineClient, place: int) -> list[int]:
        await asyncio.sleep(jobs[place].delay_steps * 0.002)
        return (await answer(client, prompts[place])).token_ids

    async def run() -> None:
        async with seeing_engine(model, prefix_cache_bytes=0) as client:
            alone = [(await answer(client, prompt)).token_ids for prompt in prompts]
        async with seeing_engine(model, prefill_pass_max_tokens=24) as client:
            for _ in ("cold", "warm"):
                beside = await asyncio.gather(*(later(client, place) for place in range(len(jobs))))
                assert beside == alone
        assert {len(token_ids) for token_ids in alone} == {NUM_TOKENS}

    asyncio.run(run())
