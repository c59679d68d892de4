"""Removes rejected draft tokens from caches. MLX thread only.

Layers that keep all tokens are trimmed. Sliding windows hold the last tokens in order after a pass over
several tokens, with all that the kept ones need, so their end is cut off. Recurrent layers cannot be trimmed:
their states from before the pass are restored, and the kept tokens are computed again.
"""

from collections import abc
from typing import Any

import mlx.core as mx

from mlxctl.engine.decoding import caches as kv
from mlxctl.engine.decoding.caches import Caches
from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.prefix_cache.records import grows, leaves

_WINDOWS = frozenset({"RotatingKVCache", "BatchRotatingKVCache"})


def rollback_problem(weights: LoadedWeights) -> str:
    """Return why tokens cannot be removed from caches, else ""."""
    if not weights.can_pad_prompts:
        return "its recurrent layers read padding like tokens"
    for layer in leaves(weights.create_caches()):
        if not (grows(layer) or _is_window(layer) or _is_recurrent(layer)):
            return f"its layers keep their state in a {type(layer).__name__}"
    return ""


def trims_cheaply(weights: LoadedWeights) -> bool:
    """Whether removing last tokens of some rows takes no other pass."""
    return not rollback_problem(weights) and not any(map(_is_recurrent, leaves(weights.create_caches())))


class CacheRollback:
    """Caches before a pass over a block of tokens."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches
        self._growing = [layer for layer in leaves(caches) if grows(layer)]
        self._windows = [layer for layer in leaves(caches) if _is_window(layer)]
        self._recurrent = [layer for layer in leaves(caches) if _is_recurrent(layer)]
        for layer in self._windows:
            _put_in_order(layer)
        # References are enough: a pass over several tokens puts new arrays in place of these.
        self._states = [
            [(layer, layer.state) for layer in self._windows],
            [(layer, (list(layer.cache), layer.left_padding, layer.lengths)) for layer in self._recurrent],
        ]

    def keep(
        self, model: Any, tokens: kv.Tokens, kept: abc.Sequence[int], shifts: dict[str, mx.array]
    ) -> None:
        """Keep the first `kept` tokens of each row.

        At least one each, of the `tokens` (rows, n) that the pass added.
        """
        num_added = tokens.shape[1]
        if all(num == num_added for num in kept):
            return
        if self._recurrent:
            self._compute_again(model, tokens, kept, shifts)
            return
        most = max(kept)
        paddings = [most - num for num in kept]
        for layer in self._growing:
            layer.trim(num_added - most)
        for layer in self._windows:
            _cut_end(layer, num_added - most, paddings)
        kv.align_ends(self._caches, paddings)
        if len(kept) > 1 and self._growing and not self._windows:
            kv.drop_spare_padding(self._caches)

    def _compute_again(
        self, model: Any, tokens: kv.Tokens, kept: abc.Sequence[int], shifts: dict[str, mx.array]
    ) -> None:
        for layer in self._growing:
            layer.trim(tokens.shape[1])
        for layer, state in (pair for pairs in self._states for pair in pairs):
            layer.state = state
        rows = [row[:num] for row, num in zip(tokens, kept, strict=True)]
        if len(rows) == 1:
            model(mx.array(rows[0])[None], cache=self._caches, **shifts)
        else:
            kv.forward(model, self._caches, rows, **shifts)


def _is_window(layer: Any) -> bool:
    return type(layer).__name__ in _WINDOWS


def _is_recurrent(layer: Any) -> bool:
    # The `state` of mlx-vlm's class of this name is not all of it.
    return type(layer).__name__ == "ArraysCache" and not hasattr(layer, "meta_state")


def _put_in_order(layer: Any) -> None:
    """Put the positions of a window in the order of time.

    The mask of a batch expects it for several tokens.
    """
    if layer.keys is None:
        return
    if hasattr(layer, "left_padding"):
        layer._temporal_order()  # noqa: SLF001 -- mlx-lm has no public name for it
    else:
        layer.keys, layer.values = layer._temporal_order(layer.keys), layer._temporal_order(layer.values)  # noqa: SLF001
        layer._idx = layer.keys.shape[2]  # noqa: SLF001


def _cut_end(layer: Any, num_tokens: int, paddings: list[int]) -> None:
    """Drop the last tokens of a window.

    `paddings` are how many more each row drops; they become padding.
    """
    end = layer.keys.shape[2] - num_tokens
    layer.keys, layer.values = layer.keys[..., :end, :], layer.values[..., :end, :]
    layer._idx = end  # noqa: SLF001
    layer.offset = layer.offset - num_tokens
    if not hasattr(layer, "left_padding"):
        return
    layer._offset -= num_tokens  # noqa: SLF001
    if any(paddings):
        shift = mx.array(paddings)
        index = mx.maximum(mx.arange(end)[None] - shift[:, None], 0)[:, None, :, None]
        layer.keys = mx.take_along_axis(layer.keys, index, axis=2)
        layer.values = mx.take_along_axis(layer.values, index, axis=2)
        layer.left_padding = layer.left_padding + shift
        layer.offset = layer.offset - shift
