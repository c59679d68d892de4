"""Text models of mlx-vlm's classes give the tokens of mlx-vlm's own generation.

Prompts are longer than the windows, pools and budgets of the tiny models.
"""

import asyncio
import json
import logging
import shutil
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm.models.cache
import numpy as np
import pytest

from mlxctl.engine import EngineClient
from mlxctl.engine.generation.cache_trial import try_caches
from mlxctl.engine.generation.loading import load_text_model
from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.engine.loading.loader import load_in_pieces
from mlxctl.ir import ModelSpec
from mlxctl.ir.errors import BrokenModel, SequenceFailed
from mlxctl.state.settings import EngineSettings
from tests import tiny_models
from tests.engine.harness import Output, finish, result_of, running_engine, submit
from tests.tiny_models.families import attention, qwen3_family
from tests.tiny_models.writer import build

NUM_TOKENS = 8
PROMPTS = [
    tuple(np.random.default_rng(seed).integers(100, 500, length).tolist())
    for seed, length in ((1, 60), (2, 45), (3, 7))
]
# The pools of deepseek_v4 depend on where a pass ends, also in mlx-vlm.
WITHOUT_REUSE = {"deepseek_v4"}


@cache
def own_generation(name: str) -> list[list[int]]:
    """Return the tokens of mlx-vlm alone.

    Without compiled functions, in which MLX's CPU backend partitions arrays wrongly.
    """
    from mlx_vlm.generate.ar import generate_step
    from mlx_vlm.utils import load_model

    model = load_model(tiny_models.model(name))
    mx.disable_compile()
    try:
        steps = [
            generate_step(mx.array([tokens]), model, None, None, max_tokens=NUM_TOKENS, temperature=0.0)
            for tokens in PROMPTS
        ]
        return [[int(token) for token, _ in each] for each in steps]
    finally:
        mx.enable_compile()


def spec(path: Path) -> ModelSpec:
    return ModelSpec(name="words", path=path, weights_bytes=1)


async def ask(client: EngineClient, tokens: Sequence[int]) -> Output:
    return await finish(submit(client, "words", tokens, max_tokens=NUM_TOKENS))


def token_ids(outputs: Sequence[Output]) -> list[list[int]]:
    return [output.token_ids for output in outputs]


@pytest.mark.parametrize("name", tiny_models.VLM_TEXT_NAMES)
def test_tokens_are_those_of_mlx_vlm_in_batches_and_from_the_cache(name: str) -> None:
    async def run() -> None:
        async with running_engine(models=[spec(tiny_models.model(name))]) as client:
            together = await asyncio.gather(*(ask(client, tokens) for tokens in PROMPTS))
            again = [await ask(client, tokens) for tokens in PROMPTS]
        assert token_ids(together) == token_ids(again) == own_generation(name)
        num_cached = 0 if name in WITHOUT_REUSE else len(PROMPTS[0]) - 1
        assert again[0].num_cached == num_cached

    asyncio.run(run())


@pytest.mark.parametrize("name", ["glm5_next", "minimax_m3"])
def test_tokens_are_those_of_mlx_vlm_after_a_restart(tmp_path: Path, name: str) -> None:
    async def run() -> list[Output]:
        settings = EngineSettings(max_rows=4, cache_dir=tmp_path, cache_disk_bytes=1 << 28)
        async with running_engine(models=[spec(tiny_models.model(name))], settings=settings) as client:
            return [await ask(client, tokens) for tokens in PROMPTS]

    asyncio.run(run())
    restored = asyncio.run(run())
    assert token_ids(restored) == own_generation(name)
    assert restored[0].num_cached == len(PROMPTS[0]) - 1


def load(path: Path) -> LoadedWeights:
    plenty = 1 << 40
    return result_of(load_in_pieces(spec(path), load_text_model, available_bytes=plenty, limit_bytes=plenty))


def copy_of(name: str, directory: Path, **config: Any) -> Path:
    """Return a copy of a tiny model with another config.json."""
    path = Path(shutil.copytree(tiny_models.model(name), directory / "model"))
    known = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(known | config))
    return path


def change_weights(path: Path, change: Callable[[dict[str, mx.array]], object]) -> None:
    weights = mx.load(str(path / "model.safetensors"))
    assert isinstance(weights, dict)
    change(weights)
    mx.eval(weights)
    mx.save_safetensors(str(path / "model.safetensors"), weights)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weights: weights.pop("language_model.model.norm.weight"), "Missing 1 parameters"),
        (lambda weights: weights.update({"language_model.model.gate": mx.zeros(3)}), "Received 1 parameters"),
        (lambda weights: weights.update({"language_model.model.norm.weight": mx.zeros(3)}), "shape"),
    ],
)
def test_checkpoint_with_other_tensors_is_refused(
    tmp_path: Path, change: Callable[[dict[str, mx.array]], object], message: str
) -> None:
    path = copy_of("flint", tmp_path)
    change_weights(path, change)
    with pytest.raises(BrokenModel, match=message) as refused:
        load(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"model_type": "unheard_of"},
            "no installed package has code for model_type 'unheard_of': update mlx",
        ),
        ({"softmax_type": "none"}, "Flint requires learned attention sinks"),
        ({"model_file": "own.py"}, "names Python code"),
    ],
)
def test_model_that_no_class_can_load_is_refused(
    tmp_path: Path, config: dict[str, str], message: str
) -> None:
    path = copy_of("flint", tmp_path, **config)
    (path / "own.py").write_text("raise SystemExit")
    with pytest.raises(BrokenModel, match=message) as refused:
        load(path)
    assert "\n" not in str(refused.value)


def test_encoder_with_decoder_is_refused(tmp_path: Path) -> None:
    sizes = {f"{part}_{name}": 1 for part in ("encoder", "decoder") for name in ("layers", "attention_heads")}
    widths = {"d_model": 16, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "hidden_size": 16}
    vision = {
        "model_type": "davit", "depths": [1], "dim_embed": [16], "num_heads": [1], "num_groups": [1],
        "patch_size": [7], "patch_stride": [4], "patch_padding": [3], "patch_prenorm": [False],
        "hidden_size": 16,
    }  # fmt: skip
    text = {**attention("florence2"), **sizes, **widths}
    config = {"model_type": "florence2", "text_config": text, "vision_config": vision}
    build(qwen3_family("florence2", config, is_of_mlx_vlm=True), tmp_path)
    with pytest.raises(BrokenModel, match="has no language model that writes token by token"):
        load(tmp_path)


def test_table_outside_of_the_directory_is_refused(tmp_path: Path) -> None:
    text = json.loads((tiny_models.model("qwen4_exp") / "config.json").read_text())["text_config"]
    text["ple_storage"] = {"manifest": "/etc/passwd"}
    with pytest.raises(BrokenModel, match="names a file outside"):
        load(copy_of("qwen4_exp", tmp_path, text_config=text))


def test_failing_class_ends_the_request_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from mlx_vlm.models.flint.language import LanguageModel

    async def run() -> None:
        async with running_engine(models=[spec(tiny_models.model("flint"))]) as client:
            with monkeypatch.context() as patch:
                patch.setattr(LanguageModel, "__call__", fail)
                with pytest.raises(SequenceFailed, match="prefill failed: no kernel"):
                    await ask(client, PROMPTS[0])
            assert (await ask(client, PROMPTS[0])).token_ids == own_generation("flint")[0]

    asyncio.run(run())


def fail(*_: object, **__: object) -> None:
    raise RuntimeError("no kernel")


class Opaque(mlx_lm.models.cache.KVCache):  # type: ignore[misc]
    """A cache with a state that it does not tell."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = 0

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> Any:
        self.hidden += keys.shape[2]
        held = super().update_and_fetch(keys, values)
        return held[0] + self.hidden, held[1]

    @classmethod
    def merge(cls, caches: Sequence[Any]) -> Any:
        return mlx_lm.models.cache.KVCache.merge(caches)


def test_unknown_cache_is_served_alone_and_without_reuse(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from mlx_vlm.models.flint.language import LanguageModel

    async def run() -> tuple[list[Output], list[Output], str | None]:
        async with running_engine(models=[spec(tiny_models.model("flint"))]) as client:
            together = await asyncio.gather(*(ask(client, tokens) for tokens in PROMPTS))
            alone = [await ask(client, tokens) for tokens in PROMPTS]
            return list(together), alone, client.loaded["words"].cache_limits

    monkeypatch.setattr(LanguageModel, "make_cache", lambda self: [Opaque() for _ in self.layers])
    with caplog.at_level(logging.WARNING):
        together, alone, reported = asyncio.run(run())
    assert token_ids(together) == token_ids(alone)
    assert [output.num_cached for output in alone] == [0, 0, 0]
    limits = [record.getMessage() for record in caplog.records if "not served" in record.getMessage()]
    assert limits == [
        "model 'words' is not served in a batch or from the prefix cache: other answers could result"
    ]
    assert reported == limits[0].removeprefix("model 'words' is ")


def test_model_with_caches_of_unknown_size_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from mlx_vlm.models.flint.language import LanguageModel

    class Unmeasured(Opaque):
        def prefix_cache_snapshot(self) -> Any:
            raise NotImplementedError("no snapshot")

    monkeypatch.setattr(LanguageModel, "make_cache", lambda self: [Unmeasured() for _ in self.layers])
    with pytest.raises(ValueError, match="memory that its caches need cannot be measured: no snapshot"):
        result_of(load_text_model(spec(tiny_models.model("flint"))))


def test_model_that_reads_following_tokens_is_refused() -> None:
    class Diffusion:
        def __call__(self, token_ids: mx.array, cache: Any) -> mx.array:
            return mx.broadcast_to(token_ids.sum(), (*token_ids.shape, 8)).astype(mx.float32)

    with pytest.raises(ValueError, match="does not write token by token"):
        try_caches(Diffusion(), list, vocabulary_size=500)
