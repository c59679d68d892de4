"""The table of start options in docs/reference/start-options.md is true."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest

from mlxctl.engine import EngineClient
from mlxctl.inference.models.configured_models import ModelReader
from mlxctl.ir import CacheOptions, KVFormat, ModelSpec, ProcessedImage, SamplingParams, TextPart
from mlxctl.ir.errors import SettingsError
from mlxctl.ir.kv_cache_size import KVFormats
from mlxctl.ir.lora import LoraChoice, LoraSpec, stack_digest
from mlxctl.ir.model_spec import DraftModelSpec, TextModelOptions
from mlxctl.library import Library, read_model
from mlxctl.library.capability_lookup import CapabilityLookup
from mlxctl.library.lora_files import read_lora
from mlxctl.state.settings import EngineSettings, LibrarySettings, ModelSettings, Settings
from mlxctl.state.stores import CapabilityStore
from tests import tiny_models
from tests.engine.harness import GREEDY, Output, finish, running_engine, submit
from tests.engine.vision_harness import noise, prepared
from tests.option_table import read_option_table
from tests.prefix_cache.test_reuse import text
from tests.tiny_models.adapters import random_adapter
from tests.tiny_models.wide_heads import wide_model

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "start-options.md"
IN_8, IN_4 = KVFormat(bits=8, group_size=32), KVFormat(bits=4, group_size=32)
FORMATS: dict[str, KVFormats] = {"--kv-bits 8": IN_8, "--kv-bits config": ((0, IN_8), (1, IN_4))}
DRAFTERS = {"--speculation lookup": "lookup", "--draft": "draft"}
# One run has all of these, so that it covers each of their pairs.
ALWAYS = ("--prefix-cache-bits 8", "--cache-dir", "--adapter", "--max-rows 1")
OPTIONS = (*FORMATS, *ALWAYS, *DRAFTERS)
USES = ("images in prompts", "an embedding model")

Prompt = tuple[Sequence[int], Sequence[ProcessedImage]]


def test_table_names_every_pair_of_options() -> None:
    exclusive = {frozenset(FORMATS), frozenset(DRAFTERS)}
    pairs = {frozenset(pair) for pair in combinations(OPTIONS, 2)}
    uses = {frozenset(pair) for pair in product(USES, OPTIONS)}
    expected = dict.fromkeys(pairs - exclusive | uses, "yes") | {frozenset(DRAFTERS): "no"}
    assert read_option_table(DOCUMENT) == expected


async def ask(
    client: EngineClient, prompt: Prompt, sampling: SamplingParams, adapter: LoraSpec | None, mode: str
) -> Output:
    token_ids, images = prompt
    choices = () if adapter is None else (LoraChoice(name="a"),)
    digest = stack_digest((adapter.digest, 1.0) for adapter in [adapter] if adapter is not None)
    stream = submit(
        client,
        "m",
        token_ids,
        sampling=sampling,
        max_tokens=12,
        images=images,
        cache=CacheOptions(mode=mode, adapters_digest=digest),  # type: ignore[arg-type]
        adapters=choices,
    )
    return await finish(stream)


def start_options(
    model: Path, tmp_path: Path, formats: str, drafter: str
) -> tuple[TextModelOptions, EngineSettings]:
    """Return all options that can be set together."""
    draft = DraftModelSpec(path=model, weights_bytes=1) if drafter == "--draft" else None
    return TextModelOptions(kv_format=FORMATS[formats], draft=draft), EngineSettings(
        max_rows=1,
        prefix_cache_bits="8",
        prefix_cache_exact_tokens=0,
        cache_dir=tmp_path / "cache",
        speculation=DRAFTERS[drafter],  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("formats", "drafter", "family"),
    [
        *((*options, "qwen3") for options in product(FORMATS, DRAFTERS)),
        *((*options, "qwen2_5_vl") for options in zip(FORMATS, DRAFTERS, strict=True)),
    ],
)
def test_options_work_together(formats: str, drafter: str, family: str, tmp_path: Path) -> None:
    model, takes_images = wide_model(family), family == "qwen2_5_vl"
    options, settings = start_options(model, tmp_path, formats, drafter)
    prompt: Prompt = (text(300, 1), ())
    if takes_images:
        written = prepared(model, noise(2), TextPart(text="What is this? " * 20))
        prompt = written.token_ids, written.images
    adapter = read_lora(random_adapter(model, tmp_path / "adapter", seed=1, size=0.2), name="a", base=model)
    spec = read_model(model).spec("m", options=options)

    async def run() -> None:
        undrafted = replace(GREEDY, speculation=False)
        async with running_engine(models=[spec], settings=settings) as client:
            assert client.loaded["m"].encoder_problem is None
            assert await client.mount_lora("m", adapter) == ""
            base = await ask(client, prompt, undrafted, None, "off")
            cold = await ask(client, prompt, undrafted, adapter, "off")
            drafted = await ask(client, prompt, GREEDY, adapter, "full")
            warm = await ask(client, prompt, GREEDY, adapter, "full")
        async with running_engine(models=[spec], settings=settings) as client:
            assert await client.mount_lora("m", adapter) == ""
            restarted = await ask(client, prompt, GREEDY, adapter, "full")
        assert base.token_ids != cold.token_ids == drafted.token_ids
        # Keys and values in fewer bits are stored as they are, so that reuse is exact.
        assert warm.token_ids == restarted.token_ids == cold.token_ids
        least = 2 * len(prompt[0]) // 3
        assert (drafted.num_cached, warm.num_cached > least, restarted.num_cached > least) == (0, True, True)

    asyncio.run(run())


@pytest.mark.parametrize(("formats", "drafter"), [*zip(FORMATS, DRAFTERS, strict=True)])
def test_options_leave_the_vectors_of_an_embedding_model_unchanged(
    formats: str, drafter: str, tmp_path: Path
) -> None:
    base = wide_model("qwen3")
    options, settings = start_options(base, tmp_path, formats, drafter)
    embedder = read_model(tiny_models.model("embedder"))
    adapter = read_lora(random_adapter(base, tmp_path / "adapter", seed=1), name="a", base=base)

    async def vectors(settings: EngineSettings, *others: ModelSpec, **embedding: Any) -> list[bytes]:
        specs = [embedder.spec("embedder", **embedding), *others]
        async with running_engine(models=specs, settings=settings) as client:
            if others:
                assert await client.mount_lora("m", adapter) == ""
            return await client.embed(model="embedder", texts=[[1, 2, 3], [7] * 90])

    async def run() -> None:
        text_model = read_model(base).spec("m", options=options)
        with_options = await vectors(settings, text_model, options=options)
        assert with_options == await vectors(EngineSettings())

    asyncio.run(run())


def test_lookup_and_draft_model_exclude_each_other(tmp_path: Path) -> None:
    settings = Settings(
        model=ModelSettings(path=wide_model("qwen3"), draft=wide_model("qwen3")),
        engine=EngineSettings(speculation="lookup"),
    )
    knowledge = CapabilityLookup(CapabilityStore(tmp_path / "store.sqlite"), tmp_path / "none.toml")
    library = Library(LibrarySettings(hub_cache=tmp_path))
    with pytest.raises(SettingsError, match="--draft is set but speculation is 'lookup'"):
        ModelReader(settings, library, knowledge).configured_models()
