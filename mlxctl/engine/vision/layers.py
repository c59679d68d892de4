"""Layers of mlx-lm's models, so changed that they follow a course (see `bearing`). MLX thread only."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from mlxctl.engine.vision.forward_context import ForwardContextHolder


class Rotation(nn.Module):  # type: ignore[misc]
    """A rotary embedding for positions with three axes; each frequency follows one of them."""

    def __init__(self, rope: Any, bearing: ForwardContextHolder) -> None:
        """`rope` is the model's own, which takes over wherever the axes agree."""
        super().__init__()
        self.rope = rope
        self._bearing = bearing

    def __call__(self, x: mx.array, offset: Any = 0) -> mx.array:
        """Turn queries or keys (rows, heads, tokens, width), whose first tokens stand at `offset`."""
        context = self._bearing.context
        if context.cosines is None or context.sines is None:
            turned: mx.array = self.rope(
                x, offset=offset if context.shifts is None else context.shifts + offset
            )
            return turned
        half = context.cosines.shape[-1]
        first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        pieces = [
            first * context.cosines - second * context.sines,
            second * context.cosines + first * context.sines,
        ]
        return mx.concatenate([piece.astype(x.dtype) for piece in (*pieces, rest)], axis=-1)


class Deepened(nn.Module):  # type: ignore[misc]
    """A layer after which something of a image is added to the states (DeepStack, arXiv 2406.04334)."""

    def __init__(self, layer: Any, place: int, bearing: ForwardContextHolder) -> None:
        super().__init__()
        self.layer = layer
        self._place = place
        self._bearing = bearing

    def __call__(self, x: mx.array, *others: Any) -> mx.array:
        """Compute the layer for states (rows, tokens, width)."""
        states: mx.array = self.layer(x, *others)
        deep = self._bearing.context.deep
        return states + deep[self._place] if deep else states


class TwoWay(nn.Module):  # type: ignore[misc]
    """A layer in which the tokens of a image attend to each other both ways, and all else as usual."""

    def __init__(self, layer: Any, bearing: ForwardContextHolder) -> None:
        super().__init__()
        self.layer = layer
        self._bearing = bearing

    def __call__(self, x: mx.array, mask: Any, cache: Any) -> mx.array:
        """Compute the layer for states (rows, tokens, width)."""
        together = self._bearing.context.together
        if together is not None:
            num_tokens = together.shape[0]
            usual = cache.make_mask(num_tokens, return_array=True, window_size=None)
            before = mx.zeros((num_tokens, usual.shape[-1] - num_tokens), dtype=mx.bool_)
            mask = usual | mx.concatenate([before, together], axis=-1)
        states: mx.array = self.layer(x, mask, cache)
        return states


def turn_on_three_axes(layers: Sequence[Any], axes: Sequence[int], bearing: ForwardContextHolder) -> mx.array:
    """Give layers the rotary embedding for three axes, and return its frequencies.

    Raises ValueError where that cannot be.
    """
    attentions = [layer.self_attn for layer in layers if hasattr(layer, "self_attn")]
    ropes = [attention.rope for attention in attentions]
    for rope in ropes:
        if not isinstance(rope, nn.RoPE) or rope.traditional or rope.scale != 1 or rope.dims != 2 * len(axes):
            raise ValueError(
                f"its rotary embedding {rope} has no {len(axes)} frequencies to follow three axes"
            )
    for attention in attentions:
        attention.rope = Rotation(attention.rope, bearing)
    dims, base = ropes[0].dims, ropes[0].base
    frequencies: mx.array = 1.0 / (base ** (mx.arange(0, dims, 2, dtype=mx.float32) / dims))
    mx.eval(frequencies)
    return frequencies


def deepen(layers: list[Any], num_deep: int, bearing: ForwardContextHolder) -> None:
    """Let the first layers take what a image adds after them."""
    layers[:num_deep] = [Deepened(layer, place, bearing) for place, layer in enumerate(layers[:num_deep])]


def open_both_ways(layers: list[Any], bearing: ForwardContextHolder) -> None:
    """Let the tokens of a image attend to each other."""
    layers[:] = [TwoWay(layer, bearing) for layer in layers]
