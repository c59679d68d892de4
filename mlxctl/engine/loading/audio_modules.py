"""Modules of mlx-audio: configuration, weights, tokenizer.

MLX thread only. Nothing is downloaded, and no code of a model's directory runs, as mlx-audio's loaders do.
"""

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten


def read_config(path: Path) -> dict[str, Any]:
    """Return config.json of the model at `path`.

    It was checked when the model was found.
    """
    config: dict[str, Any] = json.loads((path / "config.json").read_text(encoding="utf-8"))
    return config


def read_tensors(directory: Path) -> dict[str, mx.array]:
    """Return the tensors of a directory, not yet read from disk."""
    tensors: dict[str, mx.array] = {}
    for file in sorted(directory.glob("*.safetensors")):
        tensors |= mx.load(str(file))  # type: ignore[arg-type]
    return tensors


def give_weights(module: Any, weights: dict[str, mx.array], config: dict[str, Any]) -> None:
    """Give a module its weights, quantized as its configuration says.

    Raises ValueError where some are missing; others are ignored.
    """
    from mlx_audio.utils import apply_quantization

    apply_quantization(module, config, weights, getattr(module, "model_quant_predicate", None))
    expected = dict(tree_flatten(module.parameters()))
    if missing := sorted(expected.keys() - weights.keys()):
        raise ValueError(f"{len(missing)} of its tensors are missing, such as {missing[0]!r}")
    module.load_weights([(name, weights[name]) for name in expected], strict=True)
    module.eval()


def open_tokenizer(path: Path) -> Any:
    """Return the tokenizer in a directory.

    SEC: without the directory's code, and without the hub.
    """
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(path), local_files_only=True, trust_remote_code=False)
