"""A prompt that is being read, slice by slice. MLX thread only."""

import time
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from mlxctl.engine.generation.caches import Caches
from mlxctl.engine.vision.language_model import MultimodalPrompt
from mlxctl.prefix_cache.records import growing_arrays, grows, hold, leaves

# In so many turns a prompt gets its room.
_NUM_TURNS = 16
# So fast is memory touched for the first time where that is slow, in a virtual machine. MLX does not tell
# when it is done.
_BYTES_PER_SECOND = 150e6


@dataclass(slots=True)
class PrefillState:
    """What was computed of a prompt, and for one with images the `view` that it is read by."""

    caches: Caches
    view: MultimodalPrompt | None = None
    room: "CachePreallocator | None" = None


class CachePreallocator:
    """Makes room for a whole prompt in layers that grow with it, some of them each turn.

    Left alone they grow by 256 tokens and copy everything each time: in the middle of a long prompt that is a
    pause for everybody. Made all at once, room for a long prompt is a pause, too: memory that is touched for
    the first time is slow. So it is touched on a stream of its own while others decode, and what a layer
    holds moves there a turn later.
    """

    def __init__(self, caches: Caches, num_tokens: int, *, enough: int, stream: mx.Stream) -> None:
        """Give layers room for `num_tokens` where they have not `enough`; they must hold something.

        `stream` is for this alone.
        """
        growing = [layer for layer in leaves(caches) if grows(layer) and not layer.empty()]
        self._layers = [layer for layer in growing if growing_arrays(layer)[0].shape[2] < enough]
        self._num_a_turn = -(-len(self._layers) // _NUM_TURNS)
        self._num_tokens = num_tokens
        self._coming: list[tuple[Any, list[mx.array]]] = []
        self._due = 0.0
        self._stream = stream

    def advance(self) -> None:
        """Once the room of the last turn is there, move its layers, and begin to make it for the next ones."""
        if not (self._layers or self._coming) or time.monotonic() < self._due:
            return
        for layer, rooms in self._coming:
            hold(
                layer,
                [
                    _moved(array, room, layer.offset)
                    for array, room in zip(growing_arrays(layer), rooms, strict=True)
                ],
            )
        turn, self._layers = self._layers[: self._num_a_turn], self._layers[self._num_a_turn :]
        with mx.stream(self._stream):
            self._coming = [(layer, list(map(self._empty, growing_arrays(layer)))) for layer in turn]
        begun = [room for _, rooms in self._coming for room in rooms]
        mx.async_eval(begun)  # type: ignore[no-untyped-call]
        self._due = time.monotonic() + sum(array.nbytes for array in begun) / _BYTES_PER_SECOND

    def _empty(self, array: mx.array) -> mx.array:
        batch, heads, _, dim = array.shape
        return mx.zeros((batch, heads, self._num_tokens, dim), dtype=array.dtype)


def _moved(array: mx.array, room: mx.array, num_tokens: int) -> mx.array:
    room[..., :num_tokens, :] = array[..., :num_tokens, :]
    return room
