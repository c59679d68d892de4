"""MTP heads of checkpoints: which model directories have one. Only reads files."""

import re
from pathlib import Path

from mlxctl.errors import BrokenModel
from mlxctl.models.files import read_json_object
from mlxctl.models.safetensors_headers import Tensor, read_header

_NAME = re.compile(r"(?:model\.|language_model\.)*mtp\.(.+)")
_NEEDED = frozenset(
    {"fc.weight", "norm.weight", "pre_fc_norm_embedding.weight", "pre_fc_norm_hidden.weight"}
    | {f"layers.0.self_attn.{part}_proj.weight" for part in "qkvo"}
)
_MODEL_TYPES = frozenset({"qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"})


def mtp_problem(path: Path) -> str:
    """Return why the MTP head of a model cannot draft, else ""."""
    names = {mtp_name(tensor.name) for file in path.glob("*.safetensors") for tensor in _tensors(file)}
    if not any(names):
        return "its weights have no MTP head (no mtp.* tensors)"
    model_type = (read_json_object(path, "config.json") or {}).get("model_type")
    if model_type not in _MODEL_TYPES:
        return f"MTP heads of model_type {model_type!r} are not supported"
    missing = sorted(_NEEDED - names)
    return f"its MTP head is incomplete: it has no mtp.{missing[0]}" if missing else ""


def find_mtp_files(path: Path) -> list[Path]:
    """Return the readable weight files with tensors of a head."""
    return [
        file
        for file in sorted(path.glob("*.safetensors"))
        if any(mtp_name(tensor.name) for tensor in _tensors(file))
    ]


def mtp_name(name: str) -> str:
    """Return a tensor's name within the head, "" outside of it."""
    found = _NAME.fullmatch(name)
    return found[1] if found else ""


def has_zero_centered_norms(path: Path) -> bool:
    """Whether norm weights are stored minus one.

    So they are in checkpoints that were not converted. mlx-lm recognizes those by the order of axes of their
    convolutions.
    """
    return any(
        tensor.name.endswith("conv1d.weight") and tensor.shape[-1] != 1
        for file in path.glob("*.safetensors")
        for tensor in _tensors(file)
    )


def _tensors(file: Path) -> list[Tensor]:
    try:
        return read_header(file)
    except BrokenModel:
        return []
