"""A prompt that is being read, slice by slice. MLX thread only."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx
import numpy as np

from mlxctl.engine.caches import Caches
from mlxctl.engine.vision.tower import Tower
from mlxctl.ir import Picture
from mlxctl.prefix_cache.chunks import Tokens

# In so many turns a prompt gets its room.
_NUM_TURNS = 16
# So fast is memory touched for the first time where that is slow, in a virtual machine. MLX does not tell when it is done.
_BYTES_PER_SECOND = 150e6


@dataclass(slots=True)
class HalfRead:
    """What was computed of a prompt. `embedded` is the prompt from token `embedded_from` on, (1, tokens, width), where that is
    more than its token ids."""

    caches: Caches
    embedded: mx.array | None = None
    embedded_from: int = 0
    room: "Room | None" = None

    def look(self, tower: Tower, token_ids: Tokens, pictures: Sequence[Picture], *, num_cached: int) -> None:
        """Embed what is left of a prompt behind `num_cached` tokens, if there is something of its pictures in that.

        A picture is embedded whole, wherever in it the rest begins.
        """
        left = [picture for picture in pictures if picture.end > num_cached]
        if left:
            self.embedded_from = start = min(num_cached, left[0].start)
            rest = mx.array(np.frombuffer(token_ids[start:], dtype=np.uint32))
            self.embedded = tower.embed(rest, [replace(picture, start=picture.start - start) for picture in left])

    def words(self, start: int, end: int) -> dict[str, mx.array]:
        """Return what the model has to be told of the tokens `start` to `end` beside their ids."""
        if self.embedded is None:
            return {}
        return {"input_embeddings": self.embedded[:, start - self.embedded_from : end - self.embedded_from]}


class Room:
    """Makes room for a whole prompt in layers that grow with it, some of them each turn.

    Left alone they grow by 256 tokens and copy everything each time: in the middle of a long prompt that is a pause for everybody.
    Made all at once, room for a long prompt is a pause, too: memory that is touched for the first time is slow. So it is touched on
    a stream of its own while others decode, and what a layer holds moves there a turn later.
    """

    def __init__(self, caches: Caches, num_tokens: int, *, enough: int, stream: mx.Stream) -> None:
        """Give layers room for `num_tokens` where they have not `enough`; they must hold something. `stream` is for this alone."""
        growing = [layer for layer in caches if type(layer).__name__ == "KVCache" and not layer.empty()]
        self._layers = [layer for layer in growing if layer.keys.shape[2] < enough]
        self._num_a_turn = -(-len(self._layers) // _NUM_TURNS)
        self._num_tokens = num_tokens
        self._coming: list[tuple[Any, mx.array, mx.array]] = []
        self._due = 0.0
        self._stream = stream

    def advance(self) -> None:
        """Once the room of the last turn is there, move its layers, and begin to make it for the next ones."""
        if not (self._layers or self._coming) or time.monotonic() < self._due:
            return
        for layer, keys, values in self._coming:
            layer.keys, layer.values = _moved(layer.keys, keys, layer.offset), _moved(layer.values, values, layer.offset)
        turn, self._layers = self._layers[: self._num_a_turn], self._layers[self._num_a_turn :]
        with mx.stream(self._stream):
            self._coming = [(layer, self._empty(layer.keys), self._empty(layer.values)) for layer in turn]
        begun = [array for _, *arrays in self._coming for array in arrays]
        mx.async_eval(begun)  # type: ignore[no-untyped-call]
        self._due = time.monotonic() + sum(array.nbytes for array in begun) / _BYTES_PER_SECOND

    def _empty(self, array: mx.array) -> mx.array:
        batch, heads, _, dim = array.shape
        return mx.zeros((batch, heads, self._num_tokens, dim), dtype=array.dtype)


def _moved(array: mx.array, room: mx.array, num_tokens: int) -> mx.array:
    room[..., :num_tokens, :] = array[..., :num_tokens, :]
    return room
