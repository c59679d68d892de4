"""Weight files of any size: real headers with sparse contents."""

import json
import math
from pathlib import Path
from typing import Any

_NUM_BYTES = {"F32": 4, "BF16": 2, "F16": 2, "U32": 4, "U8": 1}


def write_weights(file: Path, tensors: dict[str, tuple[str, tuple[int, ...]]]) -> None:
    """Write a sparse safetensors file with these names, dtypes and shapes."""
    header: dict[str, Any] = {"__metadata__": {"format": "mlx"}}
    end = 0
    for name, (dtype, shape) in tensors.items():
        start, end = end, end + math.prod(shape) * _NUM_BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    with file.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        stream.truncate(8 + len(text) + end)


def packed(
    layer: str, rows: int, columns: int, *, bits: int = 4, group_size: int = 64
) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the three tensors of a matrix packed by MLX."""
    groups = ("BF16", (rows, columns // group_size))
    return {
        f"{layer}.weight": ("U32", (rows, columns * bits // 32)),
        f"{layer}.scales": groups,
        f"{layer}.biases": groups,
    }


def write_model(
    directory: Path, config: dict[str, Any], tensors: dict[str, tuple[str, tuple[int, ...]]], **files: Any
) -> Path:
    """Write a model directory: configuration, empty tokenizer, weights.

    Further JSON files by their name without suffix.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for name, value in {"config": config, "tokenizer": {}, **files}.items():
        (directory / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    write_weights(directory / "model.safetensors", tensors)
    return directory
