"""The LoRA adapters that are mounted on one model. MLX thread only."""

import contextlib
from collections import abc
from collections.abc import Generator, Iterable, Iterator
from typing import Any

import mlx.core as mx

from mlxctl.engine.lora import lora_layers as layers
from mlxctl.engine.lora.lora_layers import LoraMatrices, LoraRows, LoraTable
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.ir.lora import LoraChoice, LoraModule, LoraSpec

# VL models have their text model under this path. Adapters may leave it out, or name it as transformers does.
_TEXT_MODEL = "language_model."
_TRANSFORMERS_TEXT_MODEL = "model.language_model."
# Rows of a weight whose norms are computed at once.
_NORM_ROWS = 512


class LoraMismatch(ValueError):
    """An adapter does not fit its model.

    The message names the tensor or layer.
    """


class LoraAdapters:
    """Mounts and unmounts adapters, and selects those of each row.

    Mounting and unmounting are generators that work a piece at a time between steps: they build new tables
    beside the old ones, and the last piece puts all of them in place at once. Only one may run at a time. A
    model without adapters is bit for bit the model that was loaded.
    """

    def __init__(self, model: Any) -> None:
        text_model = model.text_model if hasattr(model, "text_model") else model
        self._modules: dict[str, Any] = dict(text_model.named_modules())
        self._mounted: list[LoraSpec] = []
        self._tables: dict[str, LoraTable] = {}
        self._rows = LoraRows()
        self._leaving: str | None = None

    @property
    def num_bytes(self) -> int:
        """Memory of all tables."""
        return sum(array.nbytes for table in self._tables.values() for array in table.arrays)

    def is_mounted(self, name: str) -> bool:
        """Whether an adapter has this name."""
        return any(spec.name == name for spec in self._mounted)

    def problem(self, chosen: Iterable[LoraChoice]) -> str | None:
        """Return why a sequence cannot use these adapters."""
        missing = [
            each.name for each in chosen if not self.is_mounted(each.name) or each.name == self._leaving
        ]
        return f"adapter {missing[0]!r} is not mounted" if missing else None

    def bytes_to_mount(self, spec: LoraSpec) -> int:
        """Return about how much memory mounting needs, the old tables included."""
        return 2 * (spec.num_bytes + self.num_bytes)

    def mount(self, spec: LoraSpec) -> Generator[None, None, None]:
        """Check the whole adapter, then mount it.

        Raises LoraMismatch, OSError; nothing has changed then.
        """
        try:
            tensors: Any = mx.load(str(spec.file), format="safetensors")
        except RuntimeError as error:
            raise LoraMismatch(f"{spec.file.name} cannot be read: {error}") from None
        found: dict[str, LoraMatrices] = {}
        for module in spec.modules:
            path = self._path(module.path)
            if path in found:
                raise LoraMismatch(f"two tensors adapt layer {path!r}")
            found[path] = yield from self._checked(spec, module, path, tensors)
            yield
        if self.is_mounted(spec.name):
            raise LoraMismatch(f"an adapter {spec.name!r} is mounted already")
        yield from self._put([*self._mounted, spec], self._mounted, found)

    def unmount(self, name: str) -> Generator[None, None, None]:
        """Unmount an adapter that no sequence uses.

        No sequence can use it from then on. Raises LoraMismatch.
        """
        if not self.is_mounted(name):
            raise LoraMismatch(f"adapter {name!r} is not mounted")
        self._leaving = name
        return self._without(name)

    @contextlib.contextmanager
    def of_rows(self, sequences: abc.Sequence[Sequence]) -> Iterator[None]:
        """Use the adapters of these sequences in the forward passes built inside."""
        before, self._rows.parts = self._rows.parts, self._parts(sequences)
        try:
            yield
        finally:
            self._rows.parts = before

    def _parts(self, sequences: abc.Sequence[Sequence]) -> tuple[tuple[mx.array, mx.array], ...]:
        """Return the adapters of rows as LoraRows has them."""
        if not any(sequence.adapters for sequence in sequences):
            return ()
        slots = {spec.name: (slot, spec.scale) for slot, spec in enumerate(self._mounted, start=1)}
        chosen = [
            [(slots[each.name][0], slots[each.name][1] * each.scale) for each in sequence.adapters]
            for sequence in sequences
        ]
        parts = []
        for place in range(max(map(len, chosen))):
            column = [row[place] if place < len(row) else (0, 0.0) for row in chosen]
            parts.append(
                (
                    mx.array([slot for slot, _ in column], dtype=mx.uint32),
                    mx.array([scale for _, scale in column], dtype=mx.float32),
                )
            )
        return tuple(parts)

    def _without(self, name: str) -> Generator[None, None, None]:
        try:
            yield from self._put([spec for spec in self._mounted if spec.name != name], self._mounted, {})
        finally:
            self._leaving = None

    def _path(self, path: str) -> str:
        text_path = path.replace(_TRANSFORMERS_TEXT_MODEL, f"{_TEXT_MODEL}model.", 1)
        for candidate in (path, _TEXT_MODEL + path, text_path):
            if candidate in self._modules:
                return candidate
        raise LoraMismatch(f"the model has no layer {path!r}")

    def _checked(
        self, spec: LoraSpec, lora: LoraModule, path: str, tensors: Any
    ) -> Generator[None, None, LoraMatrices]:
        """Return the matrices of one layer, checked."""
        module = self._modules[path]
        if problem := self._layer_problem(spec, lora, path):
            raise LoraMismatch(f"layer {path!r} {problem}")
        a, b = tensors[lora.a], tensors[lora.b]
        if spec.format == "peft" or layers.is_expert_layer(module):
            a, b = a.swapaxes(-1, -2), b.swapaxes(-1, -2)
        *experts, num_in, num_out = layers.layer_shape(module)
        _check_shape(path, lora.a, a, (*experts, num_in, lora.rank))
        _check_shape(path, lora.b, b, (*experts, lora.rank, num_out))
        gain = None
        if lora.magnitude:
            _check_shape(path, lora.magnitude, tensors[lora.magnitude], (num_out,))
            gain = yield from _gain(module, lora, tensors[lora.magnitude].astype(mx.float32), a, b)
        if lora.scale != spec.scale:
            b = b.astype(mx.float32) * (lora.scale / spec.scale)
        kind = layers.compute_type(module)
        a, b = (mx.contiguous(array.astype(kind)) for array in (a, b))
        for name, array in ((lora.a, a), (lora.b, b), (lora.magnitude, gain)):
            if array is not None and not mx.all(mx.isfinite(array)).item():
                raise LoraMismatch(f"tensor {name!r} has values that are not finite")
        return LoraMatrices(a, b, gain, None if gain is None else (gain - 1) / spec.scale)

    def _layer_problem(self, spec: LoraSpec, lora: LoraModule, path: str) -> str:
        """Return why a layer cannot be adapted, else ""."""
        module, parent = self._modules[path], self._modules.get(path.rpartition(".")[0])
        if layers.base_class(module) is None:
            return f"is of type {type(module).__name__}, which takes no adapter"
        is_expert, is_embedding = layers.is_expert_layer(module), layers.is_embedding(module)
        if is_expert and not layers.is_switch_block(parent):
            return f"is of experts in a {type(parent).__name__}, which takes no adapter"
        if lora.magnitude and (is_expert or is_embedding):
            return f"is of type {type(module).__name__}, for which DoRA is not supported"
        # PEFT adapts the input of such a layer only, mlx-lm its output as well.
        if is_embedding and spec.format == "peft" and not self._has_output_head:
            return "is the output head, too: adapters of PEFT for it are not supported"
        return ""

    @property
    def _has_output_head(self) -> bool:
        return any(path.rpartition(".")[2] == "lm_head" for path in self._modules)

    def _put(
        self, after: list[LoraSpec], before: list[LoraSpec], new: dict[str, LoraMatrices]
    ) -> Generator[None, None, None]:
        """Build tables with a new adapter's matrices, then use them.

        The tables of `after` are built from those of `before`.
        """
        old_slots = [(before.index(spec) + 1, spec.is_dora) if spec in before else None for spec in after]
        paths = {*self._tables, *new} if after else set[str]()
        rank = -(-max((spec.rank for spec in after), default=0) // 8) * 8
        tables: dict[str, LoraTable] = {}
        for path in sorted(paths):
            old = self._tables.get(path)
            slots: list[LoraMatrices | None] = []
            for slot in old_slots:
                if slot is None:
                    slots.append(new.get(path))
                else:
                    slots.append(None if old is None else old.matrices(slot[0], is_dora=slot[1]))
            tables[path] = self._stacked(path, rank, slots)
            mx.eval(*tables[path].arrays)
            yield
        self._use(after, tables)

    def _stacked(self, path: str, rank: int, slots: Iterable[LoraMatrices | None]) -> LoraTable:
        """Return the table of one layer.

        A slot is None where its adapter does not adapt the layer.
        """
        module = self._modules[path]
        *experts, num_in, num_out = layers.layer_shape(module)
        num_experts = experts[0] if experts else 1
        kind = layers.compute_type(module)
        empty = LoraMatrices(
            mx.zeros((num_experts, num_in, rank), kind), mx.zeros((num_experts, rank, num_out), kind)
        )
        filled = [empty, *(slot or empty for slot in slots)]
        gain = shift = None
        if any(each.gain is not None for each in filled):
            ones, zeros = mx.ones(num_out), mx.zeros(num_out)
            gain = mx.stack([ones if each.gain is None else each.gain for each in filled])
            shift = mx.stack([zeros if each.shift is None else each.shift for each in filled])
        return LoraTable(
            self._rows,
            mx.concatenate([_padded(each.a.reshape(num_experts, num_in, -1), 2, rank) for each in filled]),
            mx.concatenate([_padded(each.b.reshape(num_experts, -1, num_out), 1, rank) for each in filled]),
            num_experts,
            gain,
            shift,
        )

    def _use(self, mounted: list[LoraSpec], tables: dict[str, LoraTable]) -> None:
        for path in {*self._tables} - {*tables}:
            layers.restore(self._modules[path])
            del self._modules[path].lora
            layers.restore(self._modules[path.rpartition(".")[0]])
        self._mounted, self._tables = mounted, tables
        for path, table in tables.items():
            module = self._modules[path]
            module.lora = table
            layers.adapt(module)
            if layers.is_expert_layer(module):
                block = self._modules[path.rpartition(".")[0]]
                block.lora_rows = self._rows
                layers.adapt(block)


def _check_shape(path: str, name: str, array: mx.array, wanted: tuple[int, ...]) -> None:
    if array.shape != wanted:
        raise LoraMismatch(
            f"tensor {name!r} has shape {array.shape}, but layer {path!r} of this model needs {wanted}"
        )


def _gain(
    module: Any, lora: LoraModule, magnitude: mx.array, a: mx.array, b: mx.array
) -> Generator[None, None, mx.array]:
    """Return magnitudes (out,) divided by norms of the adapted weights."""
    norms: list[mx.array] = []
    for start in range(0, magnitude.size, _NORM_ROWS):
        end = min(start + _NORM_ROWS, magnitude.size)
        change = b[:, start:end].T.astype(mx.float32) @ a.T.astype(mx.float32)
        norms.append(mx.linalg.norm(layers.weight_rows(module, start, end) + lora.scale * change, axis=1))
        mx.eval(norms[-1])
        yield
    return magnitude / mx.concatenate(norms)


def _padded(array: mx.array, axis: int, rank: int) -> mx.array:
    """Return an array whose rank axis is `rank` long.

    Zeros are added or removed at its end.
    """
    missing = rank - array.shape[axis]
    if missing < 0:
        return array[:, :rank] if axis == 1 else array[:, :, :rank]
    widths = [(0, missing if each == axis else 0) for each in range(3)]
    return mx.pad(array, widths) if missing else array
