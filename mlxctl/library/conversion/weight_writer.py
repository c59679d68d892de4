"""Writes safetensors files piece by piece, in parts of a bounded size.

The sizes are known before, so no tensor has to be in memory. Format: README of the safetensors repository.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

# As mlx-lm.
MAX_PART_BYTES = 5 << 30
ITEM_BYTES: Final = {"F32": 4, "F16": 2, "BF16": 2, "U32": 4}
_ALIGNMENT = 8


class StoredTensor(NamedTuple):
    """A tensor to write."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        """Its bytes in the file."""
        return math.prod(self.shape) * ITEM_BYTES[self.dtype]


class WeightWriter:
    """The weight files of a model directory, open for writing.

    Tensors that are not written completely have zeros. Raises OSError for a full disk.
    """

    def __init__(self, directory: Path, tensors: Sequence[StoredTensor], *, part_bytes: int = MAX_PART_BYTES):
        self._places: dict[str, tuple[Any, int, int]] = {}
        self._files: list[Any] = []
        parts = _split(tensors, part_bytes)
        names = [
            f"model-{number:05}-of-{len(parts):05}.safetensors" if len(parts) > 1 else "model.safetensors"
            for number in range(1, len(parts) + 1)
        ]
        for name, part in zip(names, parts, strict=True):
            self._create(directory / name, part)
        index = {
            "metadata": {"total_size": sum(tensor.num_bytes for tensor in tensors)},
            "weight_map": {
                tensor.name: name for name, part in zip(names, parts, strict=True) for tensor in part
            },
        }
        (directory / "model.safetensors.index.json").write_text(json.dumps(index, indent=2), encoding="utf-8")

    def write(self, name: str, offset: int, data: bytes) -> None:
        """Write bytes of a tensor, from an offset in it on."""
        file, start, num_bytes = self._places[name]
        assert offset + len(data) <= num_bytes, "the shape that was announced"
        file.seek(start + offset)
        file.write(data)

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _create(self, path: Path, part: Sequence[StoredTensor]) -> None:
        header: dict[str, Mapping[str, Any]] = {"__metadata__": {"format": "mlx"}}
        end = 0
        for tensor in part:
            header[tensor.name] = {
                "dtype": tensor.dtype,
                "shape": tensor.shape,
                "data_offsets": (end, end := end + tensor.num_bytes),
            }
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % _ALIGNMENT)
        file = path.open("wb")
        self._files.append(file)
        file.write(len(text).to_bytes(8, "little") + text)
        start = file.tell()
        file.truncate(start + end)
        for tensor in part:
            self._places[tensor.name] = (
                file,
                start + header[tensor.name]["data_offsets"][0],
                tensor.num_bytes,
            )


def _split(tensors: Sequence[StoredTensor], part_bytes: int) -> list[list[StoredTensor]]:
    parts: list[list[StoredTensor]] = [[]]
    room = part_bytes
    for tensor in tensors:
        if parts[-1] and tensor.num_bytes > room:
            parts.append([])
            room = part_bytes
        parts[-1].append(tensor)
        room -= tensor.num_bytes
    return parts
