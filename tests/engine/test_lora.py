"""LoRA adapters in the engine: rows of one batch use different adapters, exactly as each alone."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from mlxctl.engine import EngineClient
from mlxctl.ir import CacheOptions, ModelSpec
from mlxctl.ir.lora import LoraChoice, LoraSpec, stack_digest
from mlxctl.models.lora_files import read_lora
from mlxctl.settings import EngineSettings
from tests import tiny_models
from tests.engine.harness import GREEDY, Output, finish, running_engine
from tests.tiny_models import adapters

PROMPT = tuple(range(20, 60))
SETTINGS = EngineSettings(max_rows=8, prefill_chunk_max_tokens=16)


def spec_of(directory: Path, base: Path, name: str) -> LoraSpec:
    return read_lora(directory, name=name, base=base)


async def mount(client: EngineClient, model: str, *specs: LoraSpec) -> None:
    for spec in specs:
        assert await client.mount_lora(model, spec) == ""


async def run(
    client: EngineClient,
    model: str,
    *choices: LoraChoice,
    specs: dict[str, LoraSpec],
    prompt: tuple[int, ...] = PROMPT,
    num_tokens: int = 24,
    mode: str = "full",
) -> Output:
    digest = stack_digest((specs[choice.name].digest, choice.scale) for choice in choices)
    stream = client.submit(
        model=model,
        prompt_token_ids=list(prompt),
        sampling=GREEDY,
        stop_token_ids=frozenset(),
        max_tokens=num_tokens,
        cache=CacheOptions(mode=mode, adapters_digest=digest),  # type: ignore[arg-type]
        adapters=choices,
    )
    return await finish(stream)


def two_adapters(base: Path, directory: Path) -> dict[str, LoraSpec]:
    one = adapters.random_adapter(base, directory / "one", seed=1, rank=4, size=0.2)
    two = adapters.random_adapter(base, directory / "two", seed=2, rank=12, size=0.2)
    return {"one": spec_of(one, base, "one"), "two": spec_of(two, base, "two")}


ROWS = (
    (),
    (LoraChoice(name="one"),),
    (LoraChoice(name="two"),),
    (LoraChoice(name="one", scale=0.5),),
    (LoraChoice(name="one"), LoraChoice(name="two", scale=-0.5)),
    (LoraChoice(name="two"),),
)


async def check_mixed_rows(base: Path, directory: Path) -> None:
    """Rows of different adapters in one batch give the tokens of each alone."""
    specs = two_adapters(base, directory)
    model = ModelSpec(name="base", path=base, weights_bytes=1)
    async with running_engine(models=[model], settings=replace(SETTINGS, prefix_cache_bytes=0)) as client:
        plain = await run(client, "base", specs=specs)
        await mount(client, "base", *specs.values())
        alone = [await run(client, "base", *row, specs=specs) for row in ROWS]
        prompts = [PROMPT[: 12 + 5 * number] for number in range(len(ROWS))]
        alone_each = [
            await run(client, "base", *row, specs=specs, prompt=prompt)
            for row, prompt in zip(ROWS, prompts, strict=True)
        ]
        together = await asyncio.gather(*(run(client, "base", *row, specs=specs) for row in ROWS))
        ragged = await asyncio.gather(
            *(
                run(client, "base", *row, specs=specs, prompt=prompt)
                for row, prompt in zip(ROWS, prompts, strict=True)
            )
        )
    assert [output.token_ids for output in together] == [output.token_ids for output in alone]
    assert [output.token_ids for output in ragged] == [output.token_ids for output in alone_each]
    assert together[0].token_ids == plain.token_ids
    assert len({tuple(output.token_ids) for output in alone}) == 5


@pytest.mark.parametrize("family", ["qwen3", "gemma3", "lfm2", "qwen3_next"])
def test_mixed_rows_equal_each_adapter_alone(family: str, tmp_path: Path) -> None:
    asyncio.run(check_mixed_rows(tiny_models.model(family), tmp_path))


@pytest.mark.parametrize("family", ["qwen3", "qwen3_next"])
def test_mixed_rows_equal_each_alone_on_4_bit_models(family: str, tmp_path: Path) -> None:
    base = adapters.quantized_copy(tiny_models.model(family), tmp_path / "base")
    asyncio.run(check_mixed_rows(base, tmp_path))
