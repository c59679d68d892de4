"""LoRA adapters in the engine: batched rows equal each alone."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest

from mlxctl.engine import EngineClient, Score
from mlxctl.formats.adapters import PreparedInput
from mlxctl.ir import CacheOptions, ModelSpec, TextPart
from mlxctl.ir.errors import SequenceFailed
from mlxctl.ir.lora import LoraChoice, LoraSpec, stack_digest
from mlxctl.library.lora_files import read_lora
from mlxctl.state.settings import EngineSettings
from tests import tiny_models
from tests.engine.harness import GREEDY, Output, finish, running_engine, submit
from tests.engine.vision_harness import noise, prepared, seeing_engine
from tests.tiny_models import adapters

PROMPT = tuple(range(20, 60))
SETTINGS = EngineSettings(max_rows=8, prefill_pass_max_tokens=16)


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
    num_tokens: int = 8,
    mode: str = "full",
) -> Output:
    digest = stack_digest((specs[choice.name].digest, choice.scale) for choice in choices)
    stream = submit(
        client,
        model,
        prompt,
        max_tokens=num_tokens,
        cache=CacheOptions(mode=mode, adapters_digest=digest),  # type: ignore[arg-type]
        adapters=choices,
    )
    return await finish(stream)


def with_dora(specs: dict[str, LoraSpec], base: Path, directory: Path) -> dict[str, LoraSpec]:
    dora = adapters.random_adapter(base, directory / "dora", seed=4, size=0.2, is_dora=True)
    return {**specs, "dora": spec_of(dora, base, "dora")}


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
    (LoraChoice(name="dora"),),
    (LoraChoice(name="two"), LoraChoice(name="dora", scale=0.5)),
)


async def check_mixed_rows(base: Path, directory: Path) -> None:
    """Rows of different adapters in one batch equal each alone."""
    specs = with_dora(two_adapters(base, directory), base, directory)
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
    assert len({tuple(output.token_ids) for output in alone}) == 7


@pytest.mark.parametrize("family", ["qwen3", "lfm2", "qwen3_next"])
def test_mixed_rows_equal_each_adapter_alone(family: str, tmp_path: Path) -> None:
    asyncio.run(check_mixed_rows(tiny_models.model(family), tmp_path))


def test_mixed_rows_equal_each_alone_on_4_bit_models(tmp_path: Path) -> None:
    base = adapters.quantized_copy(tiny_models.model("qwen3_next"), tmp_path / "base")
    asyncio.run(check_mixed_rows(base, tmp_path))


async def scores_of(client: EngineClient, *choices: LoraChoice) -> list[Score]:
    """Return log-probabilities of an answer, computed without the prefix cache."""
    stream = submit(
        client,
        "base",
        PROMPT,
        sampling=replace(GREEDY, num_top_logprobs=4),
        max_tokens=12,
        cache=CacheOptions(mode="off"),
        adapters=choices,
    )
    output = await finish(stream)
    assert output.scores
    return output.scores


@pytest.mark.parametrize("family", ["qwen3", "qwen3_next", "gemma3"])
def test_unmount_restores_logprobs_bit_for_bit(family: str, tmp_path: Path) -> None:
    base = tiny_models.model(family)
    specs = with_dora(two_adapters(base, tmp_path), base, tmp_path)

    async def check() -> None:
        model = ModelSpec(name="base", path=base, weights_bytes=1)
        async with running_engine(models=[model], settings=SETTINGS) as client:
            before = await scores_of(client)
            await mount(client, "base", *specs.values())
            with_one = await scores_of(client, LoraChoice(name="one"))
            for other in ("dora", "two"):
                assert await client.unmount_lora("base", other) == ""
                assert await scores_of(client, LoraChoice(name="one")) == with_one
            assert await client.unmount_lora("base", "one") == ""
            after = await scores_of(client)
        assert before == after
        assert with_one != before

    asyncio.run(check())


def test_adapters_and_scales_do_not_share_prefixes(tmp_path: Path) -> None:
    base = tiny_models.model("qwen3")
    specs = two_adapters(base, tmp_path)
    prompt = tuple(range(20, 300))

    async def check() -> None:
        model = ModelSpec(name="base", path=base, weights_bytes=1)
        async with running_engine(models=[model], settings=SETTINGS) as client:
            await mount(client, "base", *specs.values())
            for row in ROWS[:5]:
                first = await run(client, "base", *row, specs=specs, prompt=prompt)
                again = await run(client, "base", *row, specs=specs, prompt=prompt)
                assert first.num_cached == 0
                assert again.num_cached >= len(prompt) - 1
                assert again.token_ids == first.token_ids

    asyncio.run(check())


def test_adapter_in_use_is_not_unmounted(tmp_path: Path) -> None:
    base = tiny_models.model("qwen3")
    specs = two_adapters(base, tmp_path)

    async def check() -> None:
        model = ModelSpec(name="base", path=base, weights_bytes=1)
        async with running_engine(models=[model], settings=SETTINGS) as client:
            await mount(client, "base", specs["one"])
            expected = await run(client, "base", LoraChoice(name="one"), specs=specs, num_tokens=120)
            running = asyncio.create_task(
                run(client, "base", LoraChoice(name="one"), specs=specs, num_tokens=120, mode="off")
            )
            await asyncio.sleep(0)
            assert "in use" in await client.unmount_lora("base", "one")
            # Tables change while rows decode.
            await mount(client, "base", specs["two"])
            assert await client.unmount_lora("base", "two") == ""
            assert (await running).token_ids == expected.token_ids
            assert await client.unmount_lora("base", "one") == ""
            with pytest.raises(SequenceFailed, match="not mounted"):
                await run(client, "base", LoraChoice(name="one"), specs=specs)

    asyncio.run(check())


def damaged(directory: Path, change: Callable[[dict[str, mx.array]], None]) -> Path:
    file = directory / "adapters.safetensors"
    tensors = {name: mx.array(value) for name, value in mx.load(str(file)).items()}
    mx.eval(tensors)
    change(tensors)
    mx.save_safetensors(str(file), tensors)
    return directory


def test_bad_adapters_change_nothing(tmp_path: Path) -> None:
    base, other = tiny_models.model("qwen3"), tiny_models.model("lfm2")

    def fill(value: float) -> Callable[[dict[str, mx.array]], None]:
        def change(tensors: dict[str, mx.array]) -> None:
            name = max(tensors)
            tensors[name] = mx.full(tensors[name].shape, value)

        return change

    bad = {
        "not finite": damaged(adapters.random_adapter(base, tmp_path / "nan", seed=3), fill(math.nan)),
        "are not finite": damaged(adapters.random_adapter(base, tmp_path / "inf", seed=3), fill(math.inf)),
        "has no layer": adapters.random_adapter(other, tmp_path / "wrong", seed=3),
        "needs": damaged(
            adapters.random_adapter(base, tmp_path / "shape", seed=3),
            lambda tensors: tensors.update({"lm_head.lora_b": mx.zeros((4, 7))}),
        ),
    }

    async def check() -> None:
        specs = {text: spec_of(directory, base, "bad") for text, directory in bad.items()}
        model = ModelSpec(name="base", path=base, weights_bytes=1)
        async with running_engine(models=[model], settings=SETTINGS) as client:
            before = await scores_of(client)
            for text, spec in specs.items():
                assert text in await client.mount_lora("base", spec)
                assert await scores_of(client) == before
            assert "not loaded" in await client.mount_lora("nothing", spec)
            assert "not mounted" in await client.unmount_lora("base", "bad")

    asyncio.run(check())


def test_image_prompts_with_adapters_equal_each_alone(tmp_path: Path) -> None:
    base = tiny_models.model("qwen3_5_seer")
    specs = two_adapters(base, tmp_path)
    question = TextPart(text="What is this?")
    prompts = [prepared(base, noise(1), question), prepared(base, noise(2, width=32), question)]
    choices = [(), (LoraChoice(name="one"),), (LoraChoice(name="two"),)]

    async def ask(
        client: EngineClient, prompt: PreparedInput, chosen: tuple[LoraChoice, ...]
    ) -> tuple[int, ...]:
        digest = stack_digest((specs[choice.name].digest, choice.scale) for choice in chosen)
        stream = submit(
            client,
            "m",
            prompt.token_ids,
            max_tokens=8,
            images=prompt.images,
            cache=CacheOptions(adapters_digest=digest),
            adapters=chosen,
        )
        return tuple((await finish(stream)).token_ids)

    async def check() -> None:
        async with seeing_engine(base) as client:
            before = [await ask(client, prompt, ()) for prompt in prompts]
            await mount(client, "m", *specs.values())
            jobs = [(prompt, chosen) for chosen in choices for prompt in prompts]
            alone = [await ask(client, *job) for job in jobs]
            together = list(await asyncio.gather(*(ask(client, *job) for job in jobs)))
        assert together == alone
        assert alone[:2] == before
        assert len(set(alone)) == len(jobs)

    asyncio.run(check())
