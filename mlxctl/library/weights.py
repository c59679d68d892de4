"""Parameters, and bytes read per decoded token, from tensor names and shapes."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mlxctl.library.quantization import group_sizes
from mlxctl.library.safetensors_headers import Tensor
from mlxctl.library.text_config import text_part, whole_number

# Packed weights of MLX's quantized layers: `X.weight` in 32-bit words, with `X.scales`.
_PACKED = "U32"
_FLOAT_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
_EXPERTS = re.compile(r"(^|\.)(experts|switch_mlp|switch_glu)\.")
_NOT_DECODED = re.compile(
    r"(^|\.)(vision\w*|visual|image\w*|audio\w*|speech\w*|embed_vision|embed_audio|multi_modal\w*|mm_projector|connector|mtp)\."
)
_EMBEDDING = re.compile(r"(^|\.)(embed_tokens|wte|word_embeddings|tok_embeddings)\.")
_ROWS_ONLY = re.compile(r"(^|\.)(embed_tokens_per_layer|wpe|position_embeddings)\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Totals over the headers of a model's weight files.

    `decode_bytes` are read for every decoded token: without vision and audio towers, without an embedding
    table that is only looked up, and of a mixture of experts only the active share; None when that share is
    unknown. `float_bytes` is the size of one number in layers that are not packed, and of keys and values.
    """

    num_bytes: int
    num_parameters: int
    decode_bytes: int | None
    float_bytes: int | None
    has_vision_tower: bool

    @property
    def bits_per_weight(self) -> float:
        """Bits on disk per parameter, scales included."""
        return 8 * self.num_bytes / self.num_parameters if self.num_parameters else 0.0


def format_parameters(number: int) -> str:
    """Return a number of parameters in billions or millions."""
    return f"{number / 1e9:.2f} B" if number >= 1e9 else f"{number / 1e6:.1f} M"


def sum_tensors(tensors: Sequence[Tensor], config: Mapping[str, Any]) -> Weights:
    """Return the totals of a model with this configuration."""
    return Weights(
        num_bytes=sum(tensor.num_bytes for tensor in tensors),
        num_parameters=_num_parameters(tensors, config),
        decode_bytes=_decode_bytes(tensors, text_part(config)),
        float_bytes=_float_bytes(tensors),
        has_vision_tower=include_vision_tower(tensors),
    )


def include_vision_tower(tensors: Sequence[Tensor]) -> bool:
    """Whether the tensors include a vision tower.

    Text conversions drop it and keep its configuration.
    """
    return any(re.match(r"(.*\.)?(vision\w*|visual)\.", tensor.name) for tensor in tensors)


def include_audio_tower(tensors: Sequence[Tensor]) -> bool:
    """Whether the tensors include an audio tower, as `include_vision_tower`."""
    return any(re.match(r"(.*\.)?(audio\w*|embed_audio)\.", tensor.name) for tensor in tensors)


def _num_parameters(tensors: Sequence[Tensor], config: Mapping[str, Any]) -> int:
    sizes = group_sizes(config)
    scales = {
        tensor.name.removesuffix(".scales"): tensor for tensor in tensors if tensor.name.endswith(".scales")
    }
    total = 0
    for tensor in tensors:
        layer, _, kind = tensor.name.rpartition(".")
        if layer in scales and kind == "weight" and tensor.dtype == _PACKED:
            total += scales[layer].num_elements * sizes.get(layer, sizes.get("", 64))
        elif not (layer in scales and kind in ("scales", "biases")) and not kind.endswith(
            ("_scale_inv", "_scales")
        ):
            total += tensor.num_elements * (2 if kind.endswith("_blocks") else 1)
    return total


def _decode_bytes(tensors: Sequence[Tensor], config: Mapping[str, Any]) -> int | None:
    has_head = any("lm_head." in tensor.name for tensor in tensors)
    always = chosen = 0
    for tensor in tensors:
        if _NOT_DECODED.search(tensor.name) or _ROWS_ONLY.search(tensor.name):
            continue
        if has_head and _EMBEDDING.search(tensor.name):
            continue
        if _EXPERTS.search(tensor.name):
            chosen += tensor.num_bytes
        else:
            always += tensor.num_bytes
    if not chosen:
        return always
    experts = count_experts(config)
    return None if experts is None else always + chosen * experts.num_active // experts.num


class Experts(NamedTuple):
    """The experts of a layer, and those that a token uses."""

    num: int
    num_active: int


def count_experts(config: Mapping[str, Any]) -> Experts | None:
    """Return the experts of a model; None for one without."""
    num_experts = whole_number(
        config, "num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"
    )
    num_chosen = whole_number(
        config,
        "num_experts_per_tok",
        "num_experts_per_token",
        "experts_per_token",
        "top_k_experts",
        "moe_topk",
        "moe_k",
    )
    return Experts(num_experts, min(num_chosen, num_experts)) if num_experts and num_chosen else None


def _float_bytes(tensors: Sequence[Tensor]) -> int | None:
    """Return the size of the most common float type.

    Norms may be wider.
    """
    amounts: Counter[str] = Counter()
    for tensor in tensors:
        if tensor.dtype in _FLOAT_BYTES:
            amounts[tensor.dtype] += tensor.num_bytes
    return _FLOAT_BYTES[amounts.most_common(1)[0][0]] if amounts else None
