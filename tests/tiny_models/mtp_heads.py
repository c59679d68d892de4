"""Generated checkpoints of Qwen3.5's architecture with an MTP head.

The layers are scaled down, so that the next token depends mostly on the last one. The head looks at the last
token only, so most of its drafts are right and some are wrong.
"""

import json
import shutil
from pathlib import Path

import mlx.core as mx

_OUTPUTS = ("o_proj.weight", "out_proj.weight", "down_proj.weight")
_SCALE = 0.06
_TEXT = "language_model.model."
_HEAD_LAYER = "mtp.layers.0."


def with_mtp_head(base: Path, directory: Path, *, is_raw: bool = False) -> Path:
    """Write a copy of a generated Qwen3.5 model with a head.

    `is_raw` names and stores the tensors as the vendor's checkpoints do, before mlx-lm converts them.
    """
    shutil.copytree(base, directory)
    weights = _text_weights(base)
    weights |= _head(weights)
    mx.save_safetensors(
        str(directory / "model.safetensors"), _raw(weights) if is_raw else weights, metadata={"format": "mlx"}
    )
    return directory


def separate_head(model: Path, directory: Path, *, is_raw: bool = False) -> Path:
    """Write the head of a model to its own directory.

    As mlx-vlm does. `is_raw` is that of the model; its tensors then keep their names.
    """
    directory.mkdir()
    weights = {
        name if is_raw else name.removeprefix("mtp."): array
        for name, array in mx.load(str(model / "model.safetensors")).items()
        if name.startswith("mtp.")
    }
    mx.save_safetensors(str(directory / "model.safetensors"), weights, metadata={"format": "mlx"})
    config = json.loads((model / "config.json").read_text())
    head = {"model_type": "qwen3_5_mtp", "text_config": config["text_config"], "block_size": 3}
    (directory / "config.json").write_text(json.dumps(head))
    return directory


def _text_weights(base: Path) -> dict[str, mx.array]:
    return {
        name: array * (_SCALE if name.endswith(_OUTPUTS) else 1.0)
        for name, array in mx.load(str(base / "model.safetensors")).items()
        if name.startswith("language_model.")
    }


def _head(weights: dict[str, mx.array]) -> dict[str, mx.array]:
    """Return a head with a copy of the first full-attention layer."""
    full = next(
        name.partition("self_attn")[0] for name in sorted(weights) if name.endswith("self_attn.q_proj.weight")
    )
    norm = weights[f"{_TEXT}norm.weight"]
    identity, nothing = mx.eye(norm.size), mx.zeros((norm.size, norm.size))
    layer = {
        _HEAD_LAYER + name.removeprefix(full): array
        for name, array in weights.items()
        if name.startswith(full)
    }
    return layer | {
        "mtp.fc.weight": mx.concatenate([identity, nothing], axis=1),
        "mtp.norm.weight": norm,
        "mtp.pre_fc_norm_embedding.weight": mx.ones_like(norm),
        "mtp.pre_fc_norm_hidden.weight": mx.ones_like(norm),
    }


def _raw(weights: dict[str, mx.array]) -> dict[str, mx.array]:
    raw = {}
    for name, array in weights.items():
        if name.endswith("conv1d.weight"):
            array = array.moveaxis(1, 2)
        elif "norm" in name and not name.endswith("linear_attn.norm.weight"):
            array = array - 1.0
        raw[name.replace(_TEXT, "model.language_model.").removeprefix("language_model.")] = array
    return {name: mx.contiguous(array) for name, array in raw.items()}
