"""The LoRA adapters that are mounted on one model. MLX thread only."""

import contextlib
from collections.abc import Generator, Iterable, Iterator
from collections.abc import Sequence as Many
from typing import Any

import mlx.core as mx

from mlxctl.engine.generation import lora_layers as layers
from mlxctl.engine.generation.lora_layers import LoraRows, LoraTable
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.ir.lora import LoraChoice, LoraSpec

# VL models have their text model under this path; adapters may leave it out.
_TEXT_MODEL = "language_model."

Pair = tuple[mx.array, mx.array]


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
        return sum(table.a.nbytes + table.b.nbytes for table in self._tables.values())

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
        pairs: dict[str, Pair] = {}
        for module in spec.modules:
            path = self._path(module.path)
            if path in pairs:
                raise LoraMismatch(f"two tensors adapt layer {path!r}")
            pairs[path] = self._checked(spec, path, tensors, module.a, module.b)
            yield
        if self.is_mounted(spec.name):
            raise LoraMismatch(f"an adapter {spec.name!r} is mounted already")
        yield from self._put([*self._mounted, spec], self._mounted, pairs)

    def unmount(self, name: str) -> Generator[None, None, None]:
        """Unmount an adapter that no sequence uses.

        No sequence can use it from then on. Raises LoraMismatch.
        """
        if not self.is_mounted(name):
            raise LoraMismatch(f"adapter {name!r} is not mounted")
        self._leaving = name
        return self._without(name)

    @contextlib.contextmanager
    def of_rows(self, sequences: Many[Sequence]) -> Iterator[None]:
        """Use the adapters of these sequences in the forward passes built inside."""
        before, self._rows.parts = self._rows.parts, self._parts(sequences)
        try:
            yield
        finally:
            self._rows.parts = before

    def _parts(self, sequences: Many[Sequence]) -> tuple[tuple[mx.array, mx.array], ...]:
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
        for candidate in (path, _TEXT_MODEL + path):
            if candidate in self._modules:
                return candidate
        raise LoraMismatch(f"the model has no layer {path!r}")

    def _checked(self, spec: LoraSpec, path: str, tensors: Any, name_a: str, name_b: str) -> Pair:
        """Return A (in, rank) and B (rank, out) of one layer, checked."""
        module = self._modules[path]
        if layers.base_class(module) is None:
            raise LoraMismatch(f"layer {path!r} is of type {type(module).__name__}, which takes no adapter")
        is_expert = layers.is_expert_layer(module)
        parent = self._modules.get(path.rpartition(".")[0])
        if is_expert and not layers.is_switch_block(parent):
            raise LoraMismatch(
                f"layer {path!r} is of experts in a {type(parent).__name__}, which takes no adapter"
            )
        a, b = tensors[name_a], tensors[name_b]
        if spec.form == "peft" or is_expert:
            a, b = a.swapaxes(-1, -2), b.swapaxes(-1, -2)
        *experts, num_in, num_out = layers.layer_shape(module)
        wanted = (*experts, num_in, spec.rank), (*experts, spec.rank, num_out)
        for name, array, shape in zip((name_a, name_b), (a, b), wanted, strict=True):
            if array.shape != shape:
                raise LoraMismatch(
                    f"tensor {name!r} has shape {array.shape}, but layer {path!r} of this model needs {shape}"
                )
        kind = layers.compute_type(module)
        a, b = (mx.contiguous(array.astype(kind)) for array in (a, b))
        mx.eval(a, b)
        for name, array in zip((name_a, name_b), (a, b), strict=True):
            if not mx.all(mx.isfinite(array)).item():
                raise LoraMismatch(f"tensor {name!r} has values that are not finite")
        return a, b

    def _put(
        self, after: list[LoraSpec], before: list[LoraSpec], pairs: dict[str, Pair]
    ) -> Generator[None, None, None]:
        """Build the tables with a new adapter's `pairs`, then use them.

        The tables of `after` are built from those of `before`.
        """
        old_slots = [before.index(spec) + 1 if spec in before else None for spec in after]
        paths = {*self._tables, *pairs} if after else set[str]()
        rank = -(-max((spec.rank for spec in after), default=0) // 8) * 8
        tables: dict[str, Pair] = {}
        for path in sorted(paths):
            tables[path] = self._stacked(path, rank, old_slots, pairs.get(path))
            mx.eval(*tables[path])
            yield
        self._use(after, tables)

    def _stacked(self, path: str, rank: int, old_slots: Iterable[int | None], new: Pair | None) -> Pair:
        """Return the tables of one layer with these slots.

        None is the new adapter's slot.
        """
        module, old = self._modules[path], self._tables.get(path)
        *experts, num_in, num_out = layers.layer_shape(module)
        num_experts = experts[0] if experts else 1
        kind = layers.compute_type(module)
        zeros = mx.zeros((num_experts, num_in, rank), kind), mx.zeros((num_experts, rank, num_out), kind)
        slots: list[Pair] = [zeros]
        for slot in old_slots:
            if slot is not None and old is not None:
                these = slice(slot * num_experts, (slot + 1) * num_experts)
                slots.append((old.a[these], old.b[these]))
            elif slot is None and new is not None:
                slots.append(
                    (new[0].reshape(num_experts, num_in, -1), new[1].reshape(num_experts, -1, num_out))
                )
            else:
                slots.append(zeros)
        return (
            mx.concatenate([_padded(a, 2, rank) for a, _ in slots]),
            mx.concatenate([_padded(b, 1, rank) for _, b in slots]),
        )

    def _use(self, mounted: list[LoraSpec], tables: dict[str, Pair]) -> None:
        for path in {*self._tables} - {*tables}:
            layers.restore(self._modules[path])
            del self._modules[path].lora
            layers.restore(self._modules[path.rpartition(".")[0]])
        self._mounted, self._tables = mounted, {}
        for path, (a, b) in tables.items():
            module = self._modules[path]
            num_experts = module.weight.shape[0] if layers.is_expert_layer(module) else 1
            module.lora = self._tables[path] = LoraTable(self._rows, a, b, num_experts)
            layers.adapt(module)
            if layers.is_expert_layer(module):
                block = self._modules[path.rpartition(".")[0]]
                block.lora_rows = self._rows
                layers.adapt(block)


def _padded(array: mx.array, axis: int, rank: int) -> mx.array:
    """Return an array whose rank axis is `rank` long.

    Zeros are added or removed at its end.
    """
    missing = rank - array.shape[axis]
    if missing < 0:
        return array[:, :rank] if axis == 1 else array[:, :, :rank]
    widths = [(0, missing if each == axis else 0) for each in range(3)]
    return mx.pad(array, widths) if missing else array
