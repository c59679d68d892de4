"""Tiny LoRA adapters: random, or trained to give a fixed answer."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_lm.models.switch_layers import QuantizedSwitchLinear, SwitchLinear
from mlx_lm.utils import load_model

from mlxctl.engine.lora.lora_layers import layer_shape, weight_rows

from .directory_cache import in_cache, recipe_digest
from .gradient_descent import descend, print_sometimes

_KINDS = (
    nn.Linear,
    nn.QuantizedLinear,
    nn.Embedding,
    nn.QuantizedEmbedding,
    SwitchLinear,
    QuantizedSwitchLinear,
)


def random_adapter(
    model: Path,
    directory: Path,
    *,
    seed: int,
    rank: int = 4,
    scale: float = 2.0,
    size: float = 0.3,
    adapts: Callable[[str], bool] = lambda path: True,
    is_dora: bool = False,
) -> Path:
    """Write an mlx-lm adapter with random matrices.

    For all layers that `adapts` names; with `is_dora` for those of them that are linear.
    """
    loaded, _ = load_model(model, lazy=True)
    generator = np.random.default_rng(seed)
    tensors = {}
    for path, module in loaded.named_modules():
        kinds = (nn.Linear, nn.QuantizedLinear) if is_dora else _KINDS
        if not isinstance(module, kinds) or not adapts(path):
            continue
        *experts, num_in, num_out = layer_shape(module)
        shapes = (
            ((*experts, rank, num_in), (*experts, num_out, rank))
            if experts
            else ((num_in, rank), (rank, num_out))
        )
        for name, shape in zip(("lora_a", "lora_b"), shapes, strict=True):
            values = generator.standard_normal(shape, dtype=np.float32) * size
            tensors[f"{path}.{name}"] = mx.array(values)
        if is_dora:
            values = 1 + generator.random(num_out, dtype=np.float32)
            tensors[f"{path}.m"] = mx.array(values) * mx.linalg.norm(weight_rows(module, 0, num_out), axis=1)
    kind = {"fine_tune_type": "dora"} if is_dora else {}
    return write_adapter(directory, tensors, rank=rank, scale=scale, **kind)


def write_adapter(
    directory: Path, tensors: dict[str, mx.array], *, rank: int, scale: float, **config: Any
) -> Path:
    """Write an adapter in mlx-lm's format; return its directory."""
    directory.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(directory / "adapters.safetensors"), tensors)
    options = {"fine_tune_type": "lora", "lora_parameters": {"rank": rank, "scale": scale}, **config}
    (directory / "adapter_config.json").write_text(json.dumps(options))
    return directory


def as_peft(adapter: Path, directory: Path) -> Path:
    """Write an adapter of mlx-lm's format in PEFT's, with the same effect."""
    config = json.loads((adapter / "adapter_config.json").read_text())["lora_parameters"]
    directory.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for name, value in mx.load(str(adapter / "adapters.safetensors")).items():
        path, _, kind = name.rpartition(".")
        names = {"lora_a": "lora_A", "lora_b": "lora_B", "m": "lora_magnitude_vector"}
        tensors[f"base_model.model.{path}.{names[kind]}.weight"] = mx.contiguous(value.T)
    mx.save_safetensors(str(directory / "adapter_model.safetensors"), tensors)
    options = {
        "peft_type": "LORA",
        "r": config["rank"],
        "lora_alpha": config["scale"] * config["rank"],
        "use_dora": any(name.endswith("lora_magnitude_vector.weight") for name in tensors),
        "init_lora_weights": True,
    }
    (directory / "adapter_config.json").write_text(json.dumps(options))
    return directory


def trained_adapter(model: Path, *, prompts: list[list[int]], answer: list[int], rank: int = 8) -> Path:
    """Return an adapter, trained at the first use.

    With it the model continues each prompt with `answer`.
    """
    recipe = repr((model.name, prompts, answer, rank))
    return in_cache(
        "trained-adapter",
        recipe_digest(recipe, "adapters", "gradient_descent"),
        lambda directory: _train(model, directory, prompts=prompts, answer=answer, rank=rank),
    )


def _train(model: Path, directory: Path, *, prompts: list[list[int]], answer: list[int], rank: int) -> None:
    from mlx_lm.tuner.utils import linear_to_lora_layers

    mx.random.seed(11)
    loaded, _ = load_model(model)
    loaded.freeze()
    linear_to_lora_layers(loaded, len(loaded.layers), {"rank": rank, "scale": 4.0, "dropout": 0.0})

    def loss_of(net: Any, inputs: mx.array, targets: mx.array) -> mx.array:
        logits = net(inputs)[:, -targets.shape[1] :]
        return nn.losses.cross_entropy(logits, targets, reduction="mean")

    def batches() -> Iterator[tuple[Any, ...]]:
        while True:
            for prompt in prompts:
                ids = [*prompt, *answer]
                yield np.array([ids[:-1]]), np.array([answer])

    import mlx.optimizers as optimizers

    steps = 150
    descend(
        loaded,
        loss_of,
        batches(),
        optimizers.Adam(learning_rate=2e-3),
        num_steps=steps,
        report=print_sometimes(steps),
    )
    from mlx.utils import tree_flatten

    write_adapter(directory, dict(tree_flatten(loaded.trainable_parameters())), rank=rank, scale=4.0)


def quantized_copy(model: Path, directory: Path) -> Path:
    """Write a copy of a model with 4-bit weights."""
    from mlx_lm.convert import convert

    convert(str(model), str(directory), quantize=True, q_bits=4, q_group_size=32)
    return directory
