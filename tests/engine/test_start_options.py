"""The table of start options in docs/reference/start-options.md is true."""

import asyncio
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import pytest

from mlxctl.bootstrap import DEMO_MODEL
from mlxctl.engine import EngineClient
from mlxctl.errors import SettingsError
from mlxctl.inference.models.configured_models import ModelReader
from mlxctl.ir import CacheOptions, KVFormat, ModelSpec, SamplingParams, TextGenerationTask
from mlxctl.ir.kv_cache_size import KVFormats
from mlxctl.ir.lora import LoraChoice, LoraSpec, stack_digest
from mlxctl.ir.model_spec import DraftModelSpec, TextModelOptions
from mlxctl.models import Library
from mlxctl.models.capability_lookup import CapabilityLookup
from mlxctl.models.lora_files import read_lora
from mlxctl.settings import EngineSettings, LibrarySettings, ModelSettings, Settings
from mlxctl.stores import CapabilityStore
from tests.engine.harness import GREEDY, Output, finish, running_engine
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
PROMPT = text(300, 1)


def test_table_names_every_pair_of_options() -> None:
    exclusive = {frozenset(FORMATS), frozenset(DRAFTERS)}
    pairs = {frozenset(pair) for pair in combinations(OPTIONS, 2)}
    expected = dict.fromkeys(pairs - exclusive, "yes") | {frozenset(DRAFTERS): "no"}
    assert read_option_table(DOCUMENT) == expected


@pytest.fixture
def adapter(tmp_path: Path) -> LoraSpec:
    base = wide_model("qwen3")
    directory = random_adapter(base, tmp_path / "adapter", seed=1, size=0.2)
    return read_lora(directory, name="a", base=base)


async def ask(client: EngineClient, sampling: SamplingParams, adapter: LoraSpec | None, mode: str) -> Output:
    choices = () if adapter is None else (LoraChoice(name="a"),)
    digest = stack_digest((adapter.digest, 1.0) for adapter in [adapter] if adapter is not None)
    stream = client.submit(
        model="m",
        prompt_token_ids=list(PROMPT),
        sampling=sampling,
        stop_token_ids=frozenset(),
        max_tokens=12,
        cache=CacheOptions(mode=mode, adapters_digest=digest),  # type: ignore[arg-type]
        adapters=choices,
    )
    return await finish(stream)


@pytest.mark.parametrize(("formats", "drafter"), [*product(FORMATS, DRAFTERS)])
def test_options_work_together(formats: str, drafter: str, adapter: LoraSpec, tmp_path: Path) -> None:
    model = wide_model("qwen3")
    draft = DraftModelSpec(path=model, weights_bytes=1) if drafter == "--draft" else None
    options = TextModelOptions(kv_format=FORMATS[formats], draft=draft)
    spec = ModelSpec(name="m", path=model, weights_bytes=1, task=TextGenerationTask(options=options))
    settings = EngineSettings(
        max_rows=1,
        prefix_cache_bits="8",
        prefix_cache_exact_tokens=0,
        cache_dir=tmp_path / "cache",
        speculation=DRAFTERS[drafter],  # type: ignore[arg-type]
    )

    async def run() -> None:
        undrafted = replace(GREEDY, speculation=False)
        async with running_engine(models=[spec], settings=settings) as client:
            assert await client.mount_lora("m", adapter) == ""
            base = await ask(client, undrafted, None, "off")
            cold = await ask(client, undrafted, adapter, "off")
            drafted = await ask(client, GREEDY, adapter, "full")
            warm = await ask(client, GREEDY, adapter, "full")
        async with running_engine(models=[spec], settings=settings) as client:
            assert await client.mount_lora("m", adapter) == ""
            restarted = await ask(client, GREEDY, adapter, "full")
        assert base.token_ids != cold.token_ids == drafted.token_ids
        # Keys and values in fewer bits are stored as they are, so that reuse is exact.
        assert warm.token_ids == restarted.token_ids == cold.token_ids
        assert (drafted.num_cached, warm.num_cached > 200, restarted.num_cached > 200) == (0, True, True)

    asyncio.run(run())


def test_lookup_and_draft_model_exclude_each_other(tmp_path: Path) -> None:
    settings = Settings(
        model=ModelSettings(path=wide_model("qwen3"), draft=wide_model("qwen3")),
        engine=EngineSettings(speculation="lookup"),
    )
    knowledge = CapabilityLookup(CapabilityStore(tmp_path / "store.sqlite"), tmp_path / "none.toml")
    library = Library(LibrarySettings(hub_cache=tmp_path))
    with pytest.raises(SettingsError, match="--draft is set but speculation is 'lookup'"):
        ModelReader(settings, library, knowledge, demo=DEMO_MODEL).configured_models()
