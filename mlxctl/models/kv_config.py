"""KV cache formats by layer, from `kv_config.json` in a model's directory.

The file is a list of `{"layer_idx": 3, "bits": 8, "group_size": 64}`, as mlx-optiq writes it.
"""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from mlxctl.errors import BrokenModel
from mlxctl.ir import KVFormat
from mlxctl.ir.kv_cache_size import LayerKVFormats

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
    path = model / KV_CONFIG_FILE
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BrokenModel(model, f"{path} cannot be read: {error.strerror}") from None
    try:
        layers = msgspec.json.decode(data, type=list[_LayerFormat])
    except (msgspec.MsgspecError, ValueError) as error:
        raise BrokenModel(
            model, f'{path} is not a list of {{"layer_idx": 3, "bits": 8, "group_size": 64}}: {error}'
        ) from None
    formats = {
        layer.layer_idx: KVFormat(bits=layer.bits, group_size=layer.group_size)
        for layer in layers
        if layer.bits != _FULL_BITS
    }
    return tuple(sorted(formats.items())) or None
