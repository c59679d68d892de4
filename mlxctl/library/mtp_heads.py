"""MTP heads of Qwen3.5 checkpoints: which directories have one. Only reads files.

A head is in the weights of its model (`mtp.*`), or in a separate directory: most conversions drop
it, and mlx-vlm writes it as a model of type `qwen3_5_mtp`.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlxctl.ir.errors import BrokenModel
from mlxctl.library.files import read_json_object
from mlxctl.library.safetensors_headers import Tensor, read_weight_file

_NAME = re.compile(r"(?:model\.|language_model\.)*mtp\.(.+)")
_NEEDED = frozenset(
    {"fc.weight", "norm.weight", "pre_fc_norm_embedding.weight", "pre_fc_norm_hidden.weight"}
    | {f"layers.0.self_attn.{part}_proj.weight" for part in "qkvo"}
)
_MODEL_TYPES = frozenset({"qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"})
MTP_HEAD_TYPE = "qwen3_5_mtp"
"""Model type of a directory with an MTP head and no model."""
# Sizes that a head and its model have in common.
_SIZES = (
    "hidden_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "moe_intermediate_size",
    "num_experts",
)


@dataclass(frozen=True, slots=True)
class MtpTensors:
    """The tensors of an MTP head on disk.

    `names` has the names within the head by the tensors' names in `files`. With `has_zero_centered_norms` the
    weights of norms are stored minus one, as in checkpoints that were not converted.
    """

    files: tuple[Path, ...]
    names: dict[str, str]
    has_zero_centered_norms: bool


def is_mtp_head(path: Path) -> bool:
    """Whether a directory is that of an MTP head without its model."""
    return _config(path).get("model_type") == MTP_HEAD_TYPE


def find_mtp_tensors(path: Path) -> MtpTensors:
    """Return the tensors of the head in a directory.

    Unreadable files count as empty.
    """
    is_alone = is_mtp_head(path)
    files: list[Path] = []
    names: dict[str, str] = {}
    is_raw = False
    for file in sorted(path.glob("*.safetensors")):
        tensors, form = _read(file)
        found = {each.name: mtp_name(each.name) or each.name for each in tensors}
        if not is_alone:
            # mlx-lm recognizes vendors' checkpoints by the order of axes of their convolutions.
            is_raw |= any(each.name.endswith("conv1d.weight") and each.shape[-1] != 1 for each in tensors)
            found = {name: inner for name, inner in found.items() if mtp_name(name)}
        if found:
            files.append(file)
            names |= found
            # A vendor's file may lie beside converted weights.
            is_raw |= any(map(mtp_name, found)) if is_alone else form == "pt"
    return MtpTensors(tuple(files), names, is_raw)


def mtp_problem(model: Path, head: Path | None = None) -> str:
    """Return why an MTP head cannot draft for a model, else "".

    `head` is its own directory; None is the head in the model's weights.
    """
    names = set(find_mtp_tensors(head or model).names.values())
    if not names:
        return "its weights have no MTP head (no mtp.* tensors)"
    model_type = _config(model).get("model_type")
    if model_type not in _MODEL_TYPES:
        return f"MTP heads of model_type {model_type!r} are not supported"
    if missing := sorted(_NEEDED - names):
        return f"its MTP head is incomplete: it has no mtp.{missing[0]}"
    return _difference(_text_config(model), _text_config(head)) if head is not None else ""


def mtp_name(name: str) -> str:
    """Return a tensor's name within the head, "" outside of it."""
    found = _NAME.fullmatch(name)
    return found[1] if found else ""


def _difference(model: dict[str, Any], head: dict[str, Any]) -> str:
    for size in _SIZES:
        if (found := head.get(size)) is not None and found != model.get(size, found):
            return f"{size} is {found} in the MTP head and {model[size]} in the model"
    return ""


def _config(path: Path) -> dict[str, Any]:
    return read_json_object(path, "config.json") or {}


def _text_config(path: Path) -> dict[str, Any]:
    config = _config(path)
    text = config.get("text_config")
    return text if isinstance(text, dict) else config


def _read(file: Path) -> tuple[list[Tensor], str | None]:
    try:
        return read_weight_file(file)
    except BrokenModel:
        return [], None
