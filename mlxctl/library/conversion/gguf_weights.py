"""Weights of a GGUF file, written as mlx-lm reads them.

They are converted in pieces of a bounded size, so memory does not grow with the model.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

import numpy as np

from mlxctl.library.conversion.architectures import ModelPlan, PlannedTensor
from mlxctl.library.conversion.gguf_blocks import (
    AFFINE_BITS,
    FLOAT_TYPES,
    GROUP_SIZE,
    REQUANTIZED_BITS,
    Bytes,
    Floats,
    Groups,
    as_stored,
    float_bytes,
    pack,
    quantize,
    read_floats,
    read_groups,
)
from mlxctl.library.conversion.gguf_file import GgufFile, GgufTensor
from mlxctl.library.conversion.weight_writer import ITEM_BYTES, StoredTensor, WeightWriter

# 16 MB in float32; a few arrays of this size are in memory at once.
_PIECE_WEIGHTS = 1 << 22
# mlx-lm's own. Groups of GGUF have 32.
_REQUANTIZED_GROUP = 64
_DTYPE_NAMES: Final = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


@dataclass(slots=True)
class _Change:
    """What became of the tensors of a type.

    Their count, and the error of their first rows.
    """

    count: int = 0
    squares: float = 0.0
    errors: float = 0.0

    def add(self, before: Floats, after: Floats) -> None:
        """Count the error of weights."""
        self.squares += float(np.square(before, dtype=np.float64).sum())
        self.errors += float(np.square(np.subtract(after, before, dtype=np.float64)).sum())

    @property
    def relative_error(self) -> float:
        """The root of the mean square error, relative to the weights."""
        return math.sqrt(self.errors / self.squares) if self.squares else 0.0


@dataclass(slots=True)
class ImportedWeights:
    """The weights of a plan, and how each is stored."""

    file: GgufFile
    plan: ModelPlan
    bits: int | None
    dtype: str = field(init=False)
    _changes: dict[tuple[str, str], _Change] = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = self._float_type()
        self._changes = defaultdict(_Change)

    @property
    def num_source_bytes(self) -> int:
        """Bytes that are read."""
        return sum(tensor.source.num_bytes for tensor in self.plan.tensors)

    def stored(self) -> list[StoredTensor]:
        """Return the tensors that are written."""
        return [stored for tensor in self.plan.tensors for stored in self._stored(tensor)]

    def config(self) -> dict[str, Any]:
        """Return the fields of config.json on number formats."""
        layers = {
            tensor.name.removesuffix(".weight"): form
            for tensor in self.plan.tensors
            if (form := self._form(tensor)) is not None
        }
        fields: dict[str, Any] = {"torch_dtype": _DTYPE_NAMES[self.dtype]}
        if not layers:
            return fields
        forms = list(layers.values())
        usual = max(set(forms), key=lambda form: (forms.count(form), form))
        quantization: dict[str, Any] = {"group_size": usual[1], "bits": usual[0], "mode": "affine"}
        quantization |= {
            name: {"group_size": form[1], "bits": form[0]} for name, form in layers.items() if form != usual
        }
        return fields | {"quantization": quantization, "quantization_config": quantization}

    def write(
        self, streams: Sequence[BinaryIO], writer: WeightWriter, progress: Callable[[int], None]
    ) -> None:
        """Convert all tensors."""
        done = 0
        for tensor in self.plan.tensors:
            for first, rows in _pieces(self.file, streams, tensor):
                # What is not finite is found afterwards.
                with np.errstate(all="ignore"):
                    self._write_rows(tensor, first, rows, writer)
                done += rows.size
                progress(done)

    def changes(self) -> Iterator[str]:
        """Yield a line for each type: what became of it."""
        for (before, after), change in sorted(self._changes.items()):
            error = change.relative_error
            words = "exactly" if error == 0 else f"relative error {error:.2g}"
            yield f"{change.count} tensors {before} as {after}: {words}"

    def _float_type(self) -> str:
        """Return the type of all floats, scales and biases included.

        All have one, so that no layer computes in another. Gemma's activations exceed float16.
        """
        matrices = [tensor.source for tensor in self.plan.tensors if len(tensor.source.shape) > 1]
        sizes: dict[str, int] = defaultdict(int)
        for tensor in matrices:
            kind = tensor.type_name if tensor.type_name in FLOAT_TYPES else "F16"
            sizes[kind] += tensor.num_rows * tensor.shape[-1]
        usual = max(sizes, key=lambda kind: sizes[kind])
        return "BF16" if usual == "F16" and self.plan.config["model_type"].startswith("gemma") else usual

    def _form(self, tensor: PlannedTensor) -> tuple[int, int] | None:
        """Return bits and group size of a tensor, None for floats."""
        source = tensor.source
        own_bits = AFFINE_BITS.get(source.type_name)
        if len(source.shape) == 1 or (self.bits is None and source.type_name in FLOAT_TYPES):
            return None
        if own_bits is not None and self.bits in (None, own_bits):
            return own_bits, GROUP_SIZE
        group = next(
            (size for size in (_REQUANTIZED_GROUP, GROUP_SIZE) if source.shape[-1] % size == 0), None
        )
        if self.bits is None:
            return REQUANTIZED_BITS[source.type_name], GROUP_SIZE
        return None if group is None else (self.bits, group)

    def _stored(self, tensor: PlannedTensor) -> list[StoredTensor]:
        form = self._form(tensor)
        if form is None:
            return [StoredTensor(tensor.name, self.dtype, tensor.source.shape)]
        rows, width = tensor.source.shape
        bits, group = form
        stem = tensor.name.removesuffix(".weight")
        return [
            StoredTensor(f"{stem}.weight", "U32", (rows, width * bits // 32)),
            StoredTensor(f"{stem}.scales", self.dtype, (rows, width // group)),
            StoredTensor(f"{stem}.biases", self.dtype, (rows, width // group)),
        ]

    def _write_rows(self, tensor: PlannedTensor, first: int, rows: Bytes, writer: WeightWriter) -> None:
        """Convert some rows, from `first` on."""
        form = self._form(tensor)
        change = self._changes[tensor.source.type_name, self._format_name(form)]
        # PERF: the first rows of each tensor suffice for the error, which would take as long as the rest.
        counted = change if first == 0 else None
        if counted is not None:
            counted.count += 1
        width = tensor.source.shape[-1]
        if form is None:
            data = self._float_bytes(tensor, rows, counted)
            writer.write(tensor.name, first * width * ITEM_BYTES[self.dtype], data)
            return
        bits, group = form
        groups = self._groups(tensor, rows, bits, group, counted)
        stem = tensor.name.removesuffix(".weight")
        writer.write(f"{stem}.weight", first * width * bits // 8, pack(groups.codes, bits).tobytes())
        for part, values in (("scales", groups.scales), ("biases", groups.biases)):
            offset = first * width // group * ITEM_BYTES[self.dtype]
            writer.write(f"{stem}.{part}", offset, float_bytes(values, self.dtype))

    def _float_bytes(self, tensor: PlannedTensor, rows: Bytes, counted: _Change | None) -> bytes:
        kind = tensor.source.type_name
        if kind == self.dtype and len(tensor.source.shape) > 1:
            return rows.tobytes()
        before = _shifted(read_floats(rows, kind), tensor)
        after = as_stored(before, self.dtype)
        self._check(tensor, after)
        if counted is not None:
            counted.add(before, after)
        return float_bytes(after, self.dtype)

    def _groups(
        self, tensor: PlannedTensor, rows: Bytes, bits: int, group: int, counted: _Change | None
    ) -> Groups:
        kind = tensor.source.type_name
        if AFFINE_BITS.get(kind) == bits and group == GROUP_SIZE:
            exact = read_groups(rows, kind)
            groups = exact.rounded(self.dtype)
            self._check(tensor, groups.scales, groups.biases)
            if counted is not None:
                counted.add(exact.values(), groups.values())
        else:
            before = read_floats(rows, kind)
            self._check(tensor, before)
            groups = quantize(before, bits=bits, group_size=group, dtype=self.dtype)
            self._check(tensor, groups.scales, groups.biases)
            if counted is not None:
                counted.add(before, groups.values())
        return groups

    def _format_name(self, form: tuple[int, int] | None) -> str:
        if form is None:
            return _DTYPE_NAMES[self.dtype]
        return f"{form[0]} bits in groups of {form[1]} with {_DTYPE_NAMES[self.dtype]} scales"

    def _check(self, tensor: PlannedTensor, *arrays: Floats) -> None:
        """Raise ConversionFailed for weights that are not finite.

        They may be too large for the float type.
        """
        if not all(np.isfinite(array).all() for array in arrays):
            raise self.file.wrong(
                f"the tensor {tensor.source.name!r} has weights that are no numbers, or too large for "
                f"{_DTYPE_NAMES[self.dtype]}"
            )


def _pieces(
    file: GgufFile, streams: Sequence[BinaryIO], tensor: PlannedTensor
) -> Iterator[tuple[int, Bytes]]:
    """Yield rows of a tensor as bytes, with the first one's number."""
    source = tensor.source
    unit = tensor.row_unit if len(source.shape) > 1 else 1
    count = max(1, _PIECE_WEIGHTS // (source.shape[-1] * unit)) * unit
    for first in range(0, source.num_rows, count):
        rows = _read(file, streams, source, first, min(count, source.num_rows - first))
        yield first, _reordered(rows, tensor) if len(source.shape) > 1 else rows


def _read(file: GgufFile, streams: Sequence[BinaryIO], tensor: GgufTensor, first: int, count: int) -> Bytes:
    stream = streams[tensor.part]
    stream.seek(tensor.start + first * tensor.row_bytes)
    data = stream.read(count * tensor.row_bytes)
    if len(data) != count * tensor.row_bytes:
        raise file.wrong("it became shorter while it was read")
    rows: Bytes = np.frombuffer(data, np.uint8).reshape(count, tensor.row_bytes)
    return rows


def read_vector(file: GgufFile, streams: Sequence[BinaryIO], tensor: GgufTensor) -> Floats:
    vector: Floats = read_floats(_read(file, streams, tensor, 0, 1), tensor.type_name)[0]
    return vector


def _reordered(rows: Any, tensor: PlannedTensor) -> Any:
    """Return rows in mlx-lm's order.

    The first half of a head, then the second.
    """
    if tensor.order is None:
        return rows
    heads = rows.reshape(-1, tensor.row_unit // 2, 2, *rows.shape[1:])
    return np.ascontiguousarray(heads.swapaxes(1, 2)).reshape(rows.shape)


def _shifted(values: Floats, tensor: PlannedTensor) -> Floats:
    """Return weights as mlx-lm expects them. A vector is one row."""
    if len(tensor.source.shape) == 1:
        values = _reordered(values.reshape(-1), tensor).reshape(values.shape)
    return values + np.float32(tensor.shift) if tensor.shift else values
