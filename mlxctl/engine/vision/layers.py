"""Layers of mlx-lm's models, extended by a ForwardContext. MLX thread only."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from mlxctl.engine.vision.forward_context import ForwardContextHolder


class GivenStates(nn.Module):  # type: ignore[misc]
    """An embedding table for one pass, with given states (rows, tokens, width)."""

    def __init__(self, table: Any, states: mx.array) -> None:
        super().__init__()
        self.table = table
        self._states = states

    def __call__(self, token_ids: mx.array) -> mx.array:  # noqa: ARG002
        """Return the states."""
        return self._states

    def as_linear(self, states: mx.array) -> mx.array:
        """Return logits, where the table is the head too."""
        logits: mx.array = self.table.as_linear(states)
        return logits


class TextEmbedding(nn.Module):  # type: ignore[misc]
    """An embedding table in which cells are token 0."""

    def __init__(self, table: Any, cell_ids: Sequence[int]) -> None:
        super().__init__()
        self.table = table
        self._cell_ids = list(cell_ids)

    def __call__(self, token_ids: mx.array) -> mx.array:
        """Return the states of tokens."""
        is_cell = (token_ids[..., None] == mx.array(self._cell_ids)).any(axis=-1)
        states: mx.array = self.table(mx.where(is_cell, 0, token_ids))
        return states


class ThreeAxisRope(nn.Module):  # type: ignore[misc]
    """Rotary embedding for positions with three axes.

    Each frequency follows one of them.
    """

    def __init__(self, rope: Any, contexts: ForwardContextHolder) -> None:
        """`rope` is the model's own, used wherever the axes agree."""
        super().__init__()
        self.rope = rope
        self._contexts = contexts

    def __call__(self, x: mx.array, offset: Any = 0) -> mx.array:
        """Rotate queries or keys (rows, heads, tokens, width) from position `offset` on."""
        context = self._contexts.context
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


class DeepStackLayer(nn.Module):  # type: ignore[misc]
    """A layer after which image features are added (DeepStack, arXiv 2406.04334)."""

    def __init__(self, layer: Any, place: int, contexts: ForwardContextHolder) -> None:
        super().__init__()
        self.layer = layer
        self._place = place
        self._contexts = contexts

    @property
    def self_attn(self) -> Any:
        """The layer's attention, whose rotary embedding some models look at."""
        return self.layer.self_attn

    def __call__(self, x: mx.array, *others: Any) -> mx.array:
        """Compute the layer for states (rows, tokens, width)."""
        states: mx.array = self.layer(x, *others)
        deep = self._contexts.context.deep
        return states + deep[self._place] if deep else states


class BidirectionalImageLayer(nn.Module):  # type: ignore[misc]
    """A layer in which an image's tokens attend in both directions."""

    def __init__(self, layer: Any, contexts: ForwardContextHolder) -> None:
        super().__init__()
        self.layer = layer
        self._contexts = contexts

    def __call__(self, x: mx.array, mask: Any, cache: Any) -> mx.array:
        """Compute the layer for states (rows, tokens, width)."""
        together = self._contexts.context.together
        if together is not None:
            num_tokens = together.shape[0]
            usual = cache.make_mask(num_tokens, return_array=True, window_size=None)
            before = mx.zeros((num_tokens, usual.shape[-1] - num_tokens), dtype=mx.bool_)
            mask = usual | mx.concatenate([before, together], axis=-1)
        states: mx.array = self.layer(x, mask, cache)
        return states


def keep_out_of_layers(decoder: Any, cell_ids: Sequence[int]) -> None:
    """Make cells token 0 for the embeddings of a decoder's layers."""
    if decoder.hidden_size_per_layer_input:
        decoder.embed_tokens_per_layer = TextEmbedding(decoder.embed_tokens_per_layer, cell_ids)


def attend_within_windows(decoder: Any, contexts: ForwardContextHolder) -> None:
    """Replace the masks of windows by ones with bidirectional attention within images."""
    usual_masks = decoder._make_masks  # noqa: SLF001

    def masks(h: mx.array, cache: Any) -> list[Any]:
        made: list[Any] = usual_masks(h, cache)
        together = contexts.context.together
        if together is None:
            return made
        kinds = [layer.layer_type for layer in decoder.layers]
        window = cache[kinds.index("sliding_attention")].make_mask(
            h.shape[1], return_array=True, window_size=decoder.window_size
        )
        before = mx.zeros((h.shape[1], window.shape[-1] - h.shape[1]), dtype=mx.bool_)
        # The window limits what is before a token, and nothing after it.
        joined = window | mx.concatenate([before, mx.triu(together)], axis=-1)
        return [
            joined if kind == "sliding_attention" else mask for kind, mask in zip(kinds, made, strict=True)
        ]

    decoder._make_masks = masks  # noqa: SLF001


def use_three_axis_rope(
    layers: Sequence[Any], axes: Sequence[int], contexts: ForwardContextHolder
) -> mx.array:
    """Replace the layers' rotary embeddings; return their frequencies.

    Raises ValueError for rotary embeddings of another kind.
    """
    attentions = [layer.self_attn for layer in layers if hasattr(layer, "self_attn")]
    ropes = [attention.rope for attention in attentions]
    for rope in ropes:
        if not isinstance(rope, nn.RoPE) or rope.traditional or rope.scale != 1 or rope.dims != 2 * len(axes):
            raise ValueError(
                f"its rotary embedding {rope} has no {len(axes)} frequencies to follow three axes"
            )
    for attention in attentions:
        attention.rope = ThreeAxisRope(attention.rope, contexts)
    dims, base = ropes[0].dims, ropes[0].base
    frequencies: mx.array = 1.0 / (base ** (mx.arange(0, dims, 2, dtype=mx.float32) / dims))
    mx.eval(frequencies)
    return frequencies


def add_deep_features(layers: list[Any], num_deep: int, contexts: ForwardContextHolder) -> None:
    """Replace the first layers by ones that add deep image features."""
    layers[:num_deep] = [
        DeepStackLayer(layer, place, contexts) for place, layer in enumerate(layers[:num_deep])
    ]


def attend_within_images(layers: list[Any], contexts: ForwardContextHolder) -> None:
    """Replace all layers by ones with bidirectional attention within images."""
    layers[:] = [BidirectionalImageLayer(layer, contexts) for layer in layers]
