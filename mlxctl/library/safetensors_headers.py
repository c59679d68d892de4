"""Reads tensor names and shapes from the headers of safetensors files.

A file starts with the header's length (8 bytes, little endian) and the header: tensor name to dtype, shape
and offsets. Format: the safetensors repository's README.
"""

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

from mlxctl.ir.errors import BrokenModel
from mlxctl.library.names import display_name

# The limit of the safetensors library.
MAX_HEADER_BYTES = 100_000_000
_LENGTH_BYTES = 8


class Tensor(NamedTuple):
    """One tensor of a weight file, by its header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    num_bytes: int

    @property
    def num_elements(self) -> int:
        """The number of elements; a packed tensor has more weights than elements."""
        return math.prod(self.shape)


def read_tensors(directory: Path) -> list[Tensor]:
    """Return the tensors of all weight files in `directory`.

    Raises BrokenModel for a truncated or malformed file.
    """
    return [tensor for file in sorted(directory.glob("*.safetensors")) for tensor in read_header(file)]


def read_header(file: Path) -> list[Tensor]:
    """Return the tensors of one weight file, and check the file's size."""
    return read_weight_file(file)[0]


def read_weight_file(file: Path) -> tuple[list[Tensor], str | None]:
    """Return the tensors of one weight file, and its format.

    The file names its format, for example "mlx" or "pt". Its size is checked.
    """
    if file.exists() and not file.is_file():
        raise _broken(file, "is not a regular file")
    try:
        with file.open("rb") as stream:
            num_bytes = file.stat().st_size
            length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
            if num_bytes < _LENGTH_BYTES or _LENGTH_BYTES + length > num_bytes:
                raise _broken(file, f"is truncated: it has {num_bytes} bytes, less than its header")
            if length > MAX_HEADER_BYTES:
                raise _broken(file, f"has a header of {length} bytes, more than {MAX_HEADER_BYTES}")
            header = json.loads(stream.read(length))
        metadata = header.get("__metadata__")
        form = metadata.get("format") if isinstance(metadata, dict) else None
        tensors = [
            (_tensor(name, entry), entry["data_offsets"][1])
            for name, entry in header.items()
            if name != "__metadata__"
        ]
    except OSError as error:
        raise _broken(file, f"cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise _broken(file, "is not a safetensors file: its header is invalid") from error
    needed = _LENGTH_BYTES + length + max((end for _, end in tensors), default=0)
    if needed > num_bytes:
        raise _broken(file, f"is truncated: it has {num_bytes} of {needed} bytes")
    return [tensor for tensor, _ in tensors], form if isinstance(form, str) else None


def _tensor(name: str, entry: dict[str, Any]) -> Tensor:
    shape, (start, end), dtype = tuple(entry["shape"]), entry["data_offsets"], entry["dtype"]
    whole = all(isinstance(number, int) and number >= 0 for number in (*shape, start, end))
    if not whole or start > end or not isinstance(dtype, str):
        raise ValueError(name)
    return Tensor(name, dtype, shape, end - start)


def _broken(file: Path, what: str) -> BrokenModel:
    return BrokenModel(file.parent, f"{file.name} of model {display_name(file.parent)!r} {what}")
