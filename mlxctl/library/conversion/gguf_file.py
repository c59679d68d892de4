"""Reads the header of a GGUF file: metadata and tensors.

Format: docs/gguf.md of the ggml repository. The reader of the package `gguf` believes every count and length
of the file, so a small file keeps it busy for hours.
"""

import math
import os
import stat
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from mlxctl.ir.errors import ConversionFailed

MAX_TENSORS = 65_536
MAX_ENTRIES = 65_536
# Gemma 3, with the largest vocabulary, has 1.3 million and 20 MB in all.
MAX_ELEMENTS = 3_000_000
MAX_TEXT_BYTES = 16 << 20
MAX_HEADER_BYTES = 64 << 20
_MAX_NAME_BYTES = 1024
_MAX_DIMENSIONS = 4
_MAX_ALIGNMENT = 1 << 20
_DEFAULT_ALIGNMENT = 32
_VERSIONS = (2, 3)
_BUFFER_BYTES = 1 << 20

_STRING, _ARRAY = 8, 9
_SCALARS: Final = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"
}  # fmt: skip

# Weights and bytes of a block, by the number of the type.
_TYPES: Final = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    20: ("IQ4_NL", 32, 18),
    23: ("IQ4_XS", 256, 136),
    30: ("BF16", 1, 2),
}
_UNSUPPORTED_TYPES: Final = {
    9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S", 22: "IQ2_S",
    24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
    40: "NVFP4", 41: "Q1_0",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufTensor:
    """A tensor of a file.

    `shape` is in the order of numpy: rows first. `block` is the number of weights in a block, of
    `block_bytes`. `start` is its first byte in the file, which has the number `part` among several.
    """

    name: str
    type_name: str
    shape: tuple[int, ...]
    block: int
    block_bytes: int
    start: int
    part: int = 0

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.shape[-1] // self.block * self.block_bytes

    @property
    def num_rows(self) -> int:
        """Rows of a matrix; 1 for a vector."""
        return math.prod(self.shape[:-1])

    @property
    def num_bytes(self) -> int:
        """Bytes of all rows."""
        return self.num_rows * self.row_bytes


@dataclass(frozen=True, slots=True)
class GgufFile:
    """The header of a file. `metadata` has numbers, strings, booleans and lists."""

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, GgufTensor]

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string. Raises ConversionFailed."""
        return str(self._value(key, str, "text", default))

    def flag(self, key: str, default: bool) -> bool:
        """Return a boolean. Raises ConversionFailed."""
        return bool(self._value(key, bool, "true or false", default))

    def integer(self, key: str, default: int | None = None, *, least: int = 1, most: int = 1 << 40) -> int:
        """Return a whole number in a range. Raises ConversionFailed."""
        value = int(self._value(key, int, "a whole number", default))
        if not least <= value <= most:
            raise self.wrong(f"{key} is {value}, and must be from {least} to {most}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Return a finite number, rounded to what a float32 tells. Raises ConversionFailed."""
        value = float(self._value(key, int | float, "a number", default))
        if not math.isfinite(value):
            raise self.wrong(f"{key} is {value}")
        return float(f"{value:.7g}")

    def items(self, key: str, kind: type[Any], *, length: int | None = None) -> Sequence[Any]:
        """Return a list of values of one type. Raises ConversionFailed."""
        values = self._value(key, list, "a list", None)
        if not all(isinstance(value, kind) for value in values):
            raise self.wrong(f"{key} must be a list of {kind.__name__} values")
        if length is not None and len(values) != length:
            raise self.wrong(f"{key} has {len(values):,} values, and must have {length:,}")
        return list(values)

    def wrong(self, what: str) -> ConversionFailed:
        """Return the error of a file that cannot be imported."""
        return ConversionFailed(self.path, f"{str(self.path)!r}: {what}")

    def _value(self, key: str, kind: Any, words: str, default: Any) -> Any:
        value = self.metadata.get(key, default)
        if value is None:
            raise self.wrong(f"its metadata has no {key}")
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.wrong(f"{key} must be {words}, and is {type(value).__name__}")
        return value


def read_gguf(path: Path) -> GgufFile:
    """Read a file's header. Raises ConversionFailed."""
    try:
        # A pipe would block the open.
        with open(path, "rb", buffering=_BUFFER_BYTES, opener=_open_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ConversionFailed(path, f"{str(path)!r} is no regular file")
            return _Header(path, file, status.st_size).read()
    except OSError as error:
        # Users of Ollama give its names, and its directories.
        remedy = "give a GGUF file, or ollama:NAME for a model that Ollama has"
        problem = f"{str(path)!r} cannot be read: {error.strerror or error}; {remedy}"
        raise ConversionFailed(path, problem) from None


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


@dataclass(slots=True)
class _Header:
    """A header that is being read.

    Every length is checked before it is believed.
    """

    path: Path
    file: BinaryIO
    size: int
    num_elements: int = field(default=0)

    def read(self) -> GgufFile:
        magic = self.file.read(4)
        if magic != b"GGUF":
            raise self._wrong("is not a GGUF file")
        version = self._number("<I")
        if version not in _VERSIONS:
            if int.from_bytes(version.to_bytes(4, "little"), "big") in (1, *_VERSIONS):
                raise self._wrong("is a big-endian GGUF file; only little-endian ones are supported")
            raise self._wrong(f"is GGUF version {version}; supported are 2 and 3: convert it again")
        num_tensors = self._count("tensors", MAX_TENSORS)
        num_entries = self._count("metadata entries", MAX_ENTRIES)
        metadata: dict[str, Any] = {}
        for _ in range(num_entries):
            key = self._string(_MAX_NAME_BYTES)
            if key in metadata:
                raise self._wrong(f"has the metadata {key!r} twice")
            metadata[key] = self._value(self._number("<I"), key)
        tensors = self._tensors(num_tensors, self._alignment(metadata))
        return GgufFile(self.path, metadata, {tensor.name: tensor for tensor in tensors})

    def _alignment(self, metadata: Mapping[str, Any]) -> int:
        alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
        is_number = isinstance(alignment, int) and not isinstance(alignment, bool)
        if not is_number or not 1 <= alignment <= _MAX_ALIGNMENT or alignment & (alignment - 1):
            raise self._wrong(f"has the alignment {alignment!r}, which is no power of two")
        return int(alignment)

    def _tensors(self, count: int, alignment: int) -> list[GgufTensor]:
        declared = [self._declaration() for _ in range(count)]
        start = -(-self.file.tell() // alignment) * alignment
        tensors, names = [], set()
        for name, shape, number, offset in declared:
            if name in names:
                raise self._wrong(f"has the tensor {name!r} twice")
            names.add(name)
            if number not in _TYPES:
                type_name = _UNSUPPORTED_TYPES.get(number, f"number {number}")
                raise self._wrong(
                    f"has the tensor {name!r} of the type {type_name}, which is not supported; "
                    f"supported are {', '.join(each for each, _, _ in _TYPES.values())}"
                )
            type_name, block, block_bytes = _TYPES[number]
            if shape[-1] % block:
                raise self._wrong(f"has the tensor {name!r} with rows of {shape[-1]}, no multiple of {block}")
            if offset % alignment:
                raise self._wrong(f"has the tensor {name!r} at the offset {offset}, which is not aligned")
            tensors.append(
                GgufTensor(
                    name=name,
                    type_name=type_name,
                    shape=shape,
                    block=block,
                    block_bytes=block_bytes,
                    start=start + offset,
                )
            )
        self._check_places(tensors)
        return tensors

    def _declaration(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._string(_MAX_NAME_BYTES)
        num_dimensions = self._number("<I")
        if not 1 <= num_dimensions <= _MAX_DIMENSIONS:
            raise self._wrong(f"has the tensor {name!r} with {num_dimensions} dimensions")
        sizes = [self._number("<Q") for _ in range(num_dimensions)]
        if min(sizes) < 1 or math.prod(sizes) > 8 * self.size:
            raise self._wrong(f"has the tensor {name!r} of {sizes}, more than the file holds")
        return name, tuple(reversed(sizes)), self._number("<I"), self._number("<Q")

    def _check_places(self, tensors: list[GgufTensor]) -> None:
        end = 0
        for tensor in sorted(tensors, key=lambda each: each.start):
            if tensor.start < end:
                raise self._wrong(f"has the tensor {tensor.name!r} in the place of another one")
            end = tensor.start + tensor.num_bytes
            if end > self.size:
                raise self._wrong(
                    f"is truncated: it has {self.size:,} bytes, and {tensor.name!r} ends at {end:,}"
                )

    def _value(self, kind: int, key: str) -> Any:
        if kind == _STRING:
            return self._string(MAX_TEXT_BYTES)
        if kind != _ARRAY:
            return self._number(self._format(kind, key))
        kind = self._number("<I")
        if kind == _ARRAY:
            raise self._wrong(f"has nested lists in {key!r}, which are not supported")
        count = self._count(f"values of {key!r}", MAX_ELEMENTS)
        self.num_elements += count
        if self.num_elements > MAX_ELEMENTS:
            raise self._wrong(f"has more than {MAX_ELEMENTS:,} metadata values")
        if kind == _STRING:
            return [self._string(MAX_TEXT_BYTES) for _ in range(count)]
        form = self._format(kind, key)
        data = self._bytes(count * struct.calcsize(form))
        return list(struct.unpack(f"<{count}{form[1:]}", data))

    def _format(self, kind: int, key: str) -> str:
        form = _SCALARS.get(kind)
        if form is None:
            raise self._wrong(f"has a value of the unknown type {kind} in {key!r}")
        return form

    def _count(self, what: str, most: int) -> int:
        count = int(self._number("<Q"))
        if count > most:
            raise self._wrong(f"declares {count:,} {what}; at most {most:,} are read")
        return count

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._bytes(struct.calcsize(form)))[0]

    def _string(self, limit: int) -> str:
        length = self._number("<Q")
        if length > limit:
            raise self._wrong(f"has a text of {length:,} bytes, where at most {limit:,} are read")
        try:
            return self._bytes(length).decode("utf-8")
        except UnicodeDecodeError:
            raise self._wrong("has a text that is not UTF-8") from None

    def _bytes(self, count: int) -> bytes:
        if self.file.tell() + count > min(self.size, MAX_HEADER_BYTES):
            limit = min(self.size, MAX_HEADER_BYTES)
            raise self._wrong(f"is truncated: its header goes on after {limit:,} bytes")
        data = self.file.read(count)
        if len(data) != count:
            raise self._wrong("is truncated")
        return data

    def _wrong(self, what: str) -> ConversionFailed:
        return ConversionFailed(self.path, f"{str(self.path)!r} {what}")
