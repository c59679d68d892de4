"""Adapters of mlx-lm and PEFT give the tokens of merged weights."""

import asyncio
import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.tuner.utils import load_adapters
from mlx_lm.utils import load_model

from mlxctl.ir import ModelSpec
from mlxctl.ir.lora import LoraChoice, LoraSpec
from mlxctl.library.lora_files import read_lora
from tests import tiny_models
from tests.engine.harness import running_engine
from tests.engine.lora.test_lora import PROMPT, SETTINGS, mount, run
from tests.tiny_models import adapters

NUM_TOKENS = 16
Matrix = np.ndarray[Any, np.dtype[np.float32]]


def greedy_tokens(model: Any) -> list[int]:
    """Return the tokens that mlx-lm's model gives after PROMPT, without a cache."""
    tokens: list[int] = []
    for _ in range(NUM_TOKENS):
        logits = model(mx.array([[*PROMPT, *tokens]]))[0, -1]
        tokens.append(int(mx.argmax(logits).item()))
    return tokens


def merged_tokens(base: Path, changes: dict[str, Matrix]) -> list[int]:
    """Return the tokens of a model whose weights are changed, by layer."""
    model, _ = load_model(base)
    modules = dict(model.named_modules())
    for path, change in changes.items():
        modules[path].weight = modules[path].weight + mx.array(change)
    return greedy_tokens(model)


def tokens_of(base: Path, *specs: LoraSpec) -> list[list[int]]:
    """Return the tokens of the model with each of the adapters."""

    async def check() -> list[list[int]]:
        by_name = {spec.name: spec for spec in specs}
        async with running_engine(
            models=[ModelSpec(name="base", path=base, weights_bytes=1)], settings=SETTINGS
        ) as client:
            await mount(client, "base", *specs)
            outputs = [
                await run(client, "base", LoraChoice(name=name), specs=by_name, num_tokens=NUM_TOKENS)
                for name in by_name
            ]
        return [output.token_ids for output in outputs]

    return asyncio.run(check())


def mount_failure(base: Path, spec: LoraSpec) -> str:
    async def check() -> str:
        async with running_engine(
            models=[ModelSpec(name="base", path=base, weights_bytes=1)], settings=SETTINGS
        ) as client:
            return await client.mount_lora("base", spec)

    return asyncio.run(check())


def random(*shape: int, seed: int) -> Matrix:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32) * np.float32(0.2)


def write_peft(directory: Path, tensors: dict[str, Matrix], **config: Any) -> Path:
    """Write an adapter of rank 4 and scale 2 in PEFT's format."""
    directory.mkdir()
    arrays = {f"base_model.model.{name}": mx.array(value) for name, value in tensors.items()}
    mx.save_safetensors(str(directory / "adapter_model.safetensors"), arrays)
    options = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "init_lora_weights": True, **config}
    (directory / "adapter_config.json").write_text(json.dumps(options))
    return directory


@pytest.mark.parametrize(("is_dora", "is_quantized"), [(False, False), (True, False), (True, True)])
def test_tokens_are_those_of_mlx_lm(tmp_path: Path, is_dora: bool, is_quantized: bool) -> None:
    base = tiny_models.model("qwen3")
    if is_quantized:
        base = adapters.quantized_copy(base, tmp_path / "base")
    own = adapters.random_adapter(
        base, tmp_path / "own", seed=1, size=0.2, adapts=lambda path: ".layers." in path, is_dora=is_dora
    )
    options = json.loads((own / "adapter_config.json").read_text())
    names = mx.load(str(own / "adapters.safetensors"))
    keys = sorted({".".join(name.split(".")[3:-1]) for name in names})
    options["num_layers"] = 4
    options["lora_parameters"] |= {"dropout": 0.0, "keys": keys}
    (own / "adapter_config.json").write_text(json.dumps(options))
    peft = adapters.as_peft(own, tmp_path / "peft")
    reference, _ = load_model(base)
    plain = greedy_tokens(reference)
    load_adapters(reference, str(own))
    expected = greedy_tokens(reference)

    found = tokens_of(base, read_lora(own, name="a", base=base), read_lora(peft, name="b", base=base))

    assert found == [expected, expected]
    assert expected != plain


def test_ranks_and_scales_of_single_layers_are_those_of_peft(tmp_path: Path) -> None:
    base = tiny_models.model("qwen3")
    ranks = {"self_attn.q_proj": 6, "^model.layers.1.mlp.down_proj": 2}
    alphas = {"layers.0.self_attn.q_proj": 3.0}
    tensors: dict[str, Matrix] = {}
    changes: dict[str, Matrix] = {}
    modules = dict(load_model(base, lazy=True)[0].named_modules())
    for layer in range(2):
        for name in ("self_attn.q_proj", "mlp.down_proj"):
            path = f"model.layers.{layer}.{name}"
            num_out, num_in = modules[path].weight.shape
            rank = 6 if name == "self_attn.q_proj" else 2 if layer == 1 else 4
            alpha = 3.0 if path == "model.layers.0.self_attn.q_proj" else 8.0
            a, b = random(rank, num_in, seed=layer), random(num_out, rank, seed=layer + 9)
            tensors |= {f"{path}.lora_A.weight": a, f"{path}.lora_B.weight": b}
            changes[path] = alpha / rank * (b @ a)
    directory = write_peft(tmp_path / "peft", tensors, rank_pattern=ranks, alpha_pattern=alphas)
    spec = read_lora(directory, name="a", base=base)

    assert spec.rank == 6
    assert tokens_of(base, spec) == [merged_tokens(base, changes)]


def test_embedding_adapter_of_peft_changes_the_input(tmp_path: Path) -> None:
    base = tiny_models.model("qwen3")
    num_tokens, width = dict(load_model(base, lazy=True)[0].named_modules())[
        "model.embed_tokens"
    ].weight.shape
    a, b = random(4, num_tokens, seed=1), random(width, 4, seed=2)
    tensors = {"model.embed_tokens.lora_embedding_A": a, "model.embed_tokens.lora_embedding_B": b}
    spec = read_lora(write_peft(tmp_path / "peft", tensors), name="a", base=base)

    assert tokens_of(base, spec) == [merged_tokens(base, {"model.embed_tokens": 2.0 * (b @ a).T})]


def test_embedding_adapter_of_peft_for_tied_weights_is_refused(tmp_path: Path) -> None:
    base = tiny_models.model("gemma3")
    num_tokens, width = dict(load_model(base, lazy=True)[0].named_modules())[
        "model.embed_tokens"
    ].weight.shape
    tensors = {
        "model.embed_tokens.lora_embedding_A": random(4, num_tokens, seed=1),
        "model.embed_tokens.lora_embedding_B": random(width, 4, seed=2),
    }
    spec = read_lora(write_peft(tmp_path / "peft", tensors), name="a", base=base)

    assert "'model.embed_tokens' is the output head, too" in mount_failure(base, spec)


def test_layers_of_a_vision_model_have_the_names_of_transformers(tmp_path: Path) -> None:
    base = tiny_models.model("qwen3_5_seer")
    adapted = adapters.random_adapter(
        base, tmp_path / "own", seed=1, size=0.2, adapts=lambda path: path.endswith("mlp.up_proj")
    )
    peft = adapters.as_peft(adapted, tmp_path / "peft")
    file = peft / "adapter_model.safetensors"
    tensors = {name: mx.array(value) for name, value in mx.load(str(file)).items()}
    mx.eval(tensors)
    mx.save_safetensors(
        str(file),
        {name.replace("language_model.model.", "model.language_model."): a for name, a in tensors.items()},
    )
    assert "base_model.model.model.language_model.layers.0.mlp.up_proj.lora_A.weight" in mx.load(str(file))

    own, other = tokens_of(
        base, read_lora(adapted, name="a", base=base), read_lora(peft, name="b", base=base)
    )

    assert own == other


def test_dora_of_other_layers_is_refused(tmp_path: Path) -> None:
    base = tiny_models.model("qwen3")
    directory = adapters.random_adapter(
        base, tmp_path / "own", seed=1, adapts=lambda path: path == "model.embed_tokens"
    )
    file = directory / "adapters.safetensors"
    tensors = {name: mx.array(value) for name, value in mx.load(str(file)).items()}
    mx.eval(tensors)
    tensors["model.embed_tokens.m"] = mx.ones(tensors["model.embed_tokens.lora_b"].shape[1])
    adapters.write_adapter(directory, tensors, rank=4, scale=2.0, fine_tune_type="dora")

    failure = mount_failure(base, read_lora(directory, name="a", base=base))

    assert "'model.embed_tokens' is of type Embedding, for which DoRA is not supported" in failure
