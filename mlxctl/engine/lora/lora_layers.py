"""Layers that add LoRA adapters to their output, row by row.

MLX thread only. An adapted layer stays the same object with its own weights: only its class changes, to a
subclass that adds `scale * (x A) B` of each row's adapter. Where no row has an adapter, it computes what its
own class does.
"""

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.switch_layers import QuantizedSwitchLinear, SwitchGLU, SwitchLinear, SwitchMLP


@dataclass(slots=True)
class LoraRows:
    """The adapters of the rows in the next forward pass.

    Each part holds one adapter per row: its slot in the layers' tables (B,) and its scale (B,), float32. Slot
    0 is empty. No parts: no row has an adapter.
    """

    parts: tuple[tuple[mx.array, mx.array], ...] = ()


@dataclass(frozen=True, slots=True)
class LoraMatrices:
    """Matrices of one adapter for one layer.

    A is (in, rank), B is (rank, out). DoRA has `gain` and `shift` (out,) in float32, too: the layer adds
    `shift * W x + gain * (x A) B`, times the adapter's scale. `gain` is the magnitude divided by the norm of
    the adapted weights, `shift` is (gain - 1) / scale. That is equation 5 of Liu et al. 2024, as in PEFT.
    """

    a: mx.array
    b: mx.array
    gain: mx.array | None = None
    shift: mx.array | None = None


@dataclass(slots=True, eq=False)
class LoraTable:
    """Tables A and B of all adapters for one layer.

    By slot; slot 0 is zero. `a` is (slots, in, rank) and `b` (slots, rank, out), in the type that the layer
    computes. Layers of experts have (slots * experts, in, rank) in float32, because not every backend
    multiplies others. `gain` and `shift` (slots, out) are None without DoRA.
    """

    rows: LoraRows
    a: mx.array
    b: mx.array
    num_experts: int = 1
    gain: mx.array | None = None
    shift: mx.array | None = None

    @property
    def arrays(self) -> list[mx.array]:
        """All tables."""
        return [array for array in (self.a, self.b, self.gain, self.shift) if array is not None]

    def matrices(self, slot: int, *, is_dora: bool) -> LoraMatrices:
        """Return those of one slot; of experts, one after the other."""
        these = slice(slot * self.num_experts, (slot + 1) * self.num_experts)
        if not is_dora or self.gain is None or self.shift is None:
            return LoraMatrices(self.a[these], self.b[these])
        return LoraMatrices(self.a[these], self.b[these], self.gain[slot], self.shift[slot])

    def add_to(self, y: mx.array, x: mx.array, bias: mx.array | None) -> mx.array:
        """Return `y` = W x + `bias` with the adapters' part.

        Rows are the first axis of `x`, or its first part.
        """
        total = y
        for slots, scales in self.rows.parts:
            num_rows = slots.shape[0]
            flat = x.reshape(num_rows, -1, x.shape[-1]).astype(self.a.dtype)
            added = (flat @ self.a[slots]) @ self.b[slots]
            if self.gain is not None and self.shift is not None:
                base = (y if bias is None else y - bias).reshape(added.shape)
                added = self.gain[slots][:, None] * added + self.shift[slots][:, None] * base
            total = total + (scales[:, None, None] * added).astype(y.dtype).reshape(y.shape)
        return total

    def expert_delta(self, x: mx.array, indices: mx.array, y: mx.array) -> mx.array:
        """Return `y` with the adapters' part for a layer of experts.

        Tokens are in the order of their rows.
        """
        total, x = y, x.astype(mx.float32)
        num_tokens = indices.size // indices.shape[-1]
        for slots, scales in self.rows.parts:
            shape = (*indices.shape[:-1], 1)
            num_each = num_tokens // slots.shape[0]
            slot = mx.repeat(slots, num_each).reshape(shape)
            which = slot * self.num_experts + indices.astype(slot.dtype)
            added = mx.gather_mm(x, self.a, rhs_indices=which)
            added = mx.gather_mm(added, self.b, rhs_indices=which)
            scale = mx.repeat(scales, num_each).reshape(*shape, 1, 1)
            total = total + (scale * added).astype(y.dtype)
        return total


class _LoraLayer:
    """What all adapted layers have."""

    lora: LoraTable

    @property
    def _is_adapted(self) -> bool:
        return bool(self.lora.rows.parts)


class _LoraLinear(_LoraLayer):
    def __call__(self, x: mx.array) -> mx.array:
        y: mx.array = super().__call__(x)  # type: ignore[misc]
        layer: Any = self
        return self.lora.add_to(y, x, layer.get("bias")) if self._is_adapted else y


class _LoraEmbedding(_LoraLayer):
    """Embedding layer with adapters.

    Its tables are `a` (slots, vocabulary, rank) and `b` (slots, rank, out).
    """

    def __call__(self, x: mx.array) -> mx.array:
        y: mx.array = super().__call__(x)  # type: ignore[misc]
        for slots, scales in self.lora.rows.parts:
            flat = x.reshape(slots.shape[0], -1)
            added = self.lora.a[slots[:, None], flat] @ self.lora.b[slots]
            y = y + (scales[:, None, None] * added).astype(y.dtype).reshape(y.shape)
        return y

    def as_linear(self, x: mx.array) -> mx.array:
        y: mx.array = super().as_linear(x)  # type: ignore[misc]
        table = self.lora
        for slots, scales in table.rows.parts:
            flat = x.reshape(slots.shape[0], -1, x.shape[-1]).astype(table.a.dtype)
            added = (flat @ table.b[slots].swapaxes(-1, -2)) @ table.a[slots].swapaxes(-1, -2)
            y = y + (scales[:, None, None] * added).astype(y.dtype).reshape(y.shape)
        return y


class _LoraSwitch(_LoraLayer):
    def __call__(self, x: mx.array, indices: mx.array, sorted_indices: bool = False) -> mx.array:
        y: mx.array = super().__call__(x, indices, sorted_indices=sorted_indices)  # type: ignore[misc]
        if not self._is_adapted:
            return y
        assert not sorted_indices, "the block of experts keeps the order of the rows"
        return self.lora.expert_delta(x, indices, y)


class _LoraSwitchBlock:
    """Expert block that keeps token order while rows have adapters.

    Otherwise tokens are sorted by expert.
    """

    lora_rows: LoraRows

    def __call__(self, x: mx.array, indices: mx.array) -> mx.array:
        if not self.lora_rows.parts:
            return super().__call__(x, indices)  # type: ignore[misc, no-any-return]
        block: Any = self
        x = mx.expand_dims(x, (-2, -3))
        if isinstance(self, SwitchMLP):
            x = block.fc2(block.activation(block.fc1(x, indices)), indices)
        else:
            up, gate = block.up_proj(x, indices), block.gate_proj(x, indices)
            x = block.down_proj(block.activation(up, gate), indices)
        return x.squeeze(-2)


_MIXINS: dict[type, type] = {
    nn.Linear: _LoraLinear,
    nn.QuantizedLinear: _LoraLinear,
    nn.Embedding: _LoraEmbedding,
    nn.QuantizedEmbedding: _LoraEmbedding,
    SwitchLinear: _LoraSwitch,
    QuantizedSwitchLinear: _LoraSwitch,
    SwitchGLU: _LoraSwitchBlock,
    SwitchMLP: _LoraSwitchBlock,
}
_ADAPTED = {base: type(f"Lora{base.__name__}", (mixin, base), {}) for base, mixin in _MIXINS.items()}
_BASES = {adapted: base for base, adapted in _ADAPTED.items()}


def base_class(module: Any) -> type | None:
    """Return a layer's class without adapters, None if not adaptable."""
    kind = _BASES.get(type(module), type(module))
    return kind if kind in _MIXINS and kind not in (SwitchGLU, SwitchMLP) else None


def is_switch_block(module: Any) -> bool:
    """Whether a module is a block of experts.

    Its tokens stay in order while rows have adapters.
    """
    return _BASES.get(type(module), type(module)) in (SwitchGLU, SwitchMLP)


def is_expert_layer(module: Any) -> bool:
    """Whether a layer holds one matrix for each expert."""
    return isinstance(module, SwitchLinear | QuantizedSwitchLinear)


def adapt(module: Any) -> None:
    """Give a layer or a block of experts its adapted class.

    Its attribute `lora` is set already.
    """
    module.__class__ = _ADAPTED.get(type(module), type(module))


def restore(module: Any) -> None:
    """Give an adapted module its own class back."""
    module.__class__ = _BASES.get(type(module), type(module))


def is_embedding(module: Any) -> bool:
    """Whether a layer is an embedding."""
    return isinstance(module, nn.Embedding | nn.QuantizedEmbedding)


def weight_rows(module: Any, start: int, end: int) -> mx.array:
    """Return rows (n, in) of a linear layer's weight in float32."""
    weight = module.weight[start:end]
    if hasattr(module, "bits"):
        biases = module.get("biases")
        weight = mx.dequantize(
            weight,
            module.scales[start:end],
            None if biases is None else biases[start:end],
            group_size=module.group_size,
            bits=module.bits,
            mode=module.mode,
        )
    rows: mx.array = weight.astype(mx.float32)
    return rows


def layer_shape(module: Any) -> tuple[int, ...]:
    """Return (in, out) of a layer.

    (experts, in, out) for experts, (vocabulary, out) for an embedding.
    """
    *experts, rows, columns = module.weight.shape
    if hasattr(module, "bits"):
        columns = columns * 32 // module.bits
    return (rows, columns) if is_embedding(module) else (*experts, columns, rows)


def compute_type(module: Any) -> mx.Dtype:
    """Return the type of a layer's tables."""
    if is_expert_layer(module):
        return mx.float32
    kind: mx.Dtype = module.scales.dtype if hasattr(module, "scales") else module.weight.dtype
    return kind if mx.issubdtype(kind, mx.floating) else mx.float32
