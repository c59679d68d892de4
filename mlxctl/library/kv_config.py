"""KV cache formats by layer, from `kv_config.json` in a model's directory.

The file is a list of `{"layer_idx": 3, "bits": 8, "group_size": 64}`, as mlx-optiq writes it.
"""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from mlxctl.ir import KVFormat
from mlxctl.ir.errors import BrokenModel
from mlxctl.ir.kv_cache_size import LayerKVFormats
from mlxctl.library.files import read_text

KV_CONFIG_FILE = "kv_config.json"
_MAX_BYTES = 1_000_000
_FULL_BITS = 16


class _LayerFormat(Struct, frozen=True):
    layer_idx: Annotated[int, Meta(ge=0, lt=10_000)]
    bits: Literal[4, 8, 16]
    group_size: Literal[32, 64, 128] = 64


def read_kv_config(model: Path) -> LayerKVFormats | None:
    """Return the formats of the quantized layers; None without any.

    Layers with 16 bits and those that it does not name are not quantized. Raises BrokenModel.
    """
    text = read_text(model, KV_CONFIG_FILE, limit_bytes=_MAX_BYTES)
    if text is None:
        return None
    try:
        layers = msgspec.json.decode(text, type=list[_LayerFormat])
    except (msgspec.MsgspecError, ValueError) as error:
        form = '{"layer_idx": 3, "bits": 8, "group_size": 64}'
        raise BrokenModel(model, f"{model / KV_CONFIG_FILE} is not a list of {form}: {error}") from None
    formats = {
        layer.layer_idx: KVFormat(bits=layer.bits, group_size=layer.group_size)
        for layer in layers
        if layer.bits != _FULL_BITS
    }
    return tuple(sorted(formats.items())) or None
