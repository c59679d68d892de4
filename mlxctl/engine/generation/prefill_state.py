"""What a sequence holds on the device before it decodes.

MLX thread only.
"""

import time
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np

from mlxctl.engine.decoding.caches import Caches, Tokens
from mlxctl.engine.generation.prefill_pass import PassInTurns
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.engine.vision.language_model import MultimodalPrompt
from mlxctl.ir.conversation_size import OUTPUT_RESERVE_TOKENS
from mlxctl.prefix_cache.cache import StorageFormat
from mlxctl.prefix_cache.disk.promotion import Promotion
from mlxctl.prefix_cache.entries import Chunk
from mlxctl.prefix_cache.packing import Record
from mlxctl.prefix_cache.records import growing_arrays, grows, leaves, set_arrays

# Turns in which a long prompt's caches grow to their final size.
_NUM_TURNS = 16


@dataclass(slots=True, eq=False)
class PrefillState:
    """A sequence's caches, from restore until a decode batch takes over.

    `unfinished_pass` is one that other steps interrupt; until its end the caches hold no usable state. Those
    of several prompts have one together, which also has their caches.
    `view` reads a prompt with images. `last_chunk` is its last full chunk in the prefix cache, used until the
    sequence ends; `storage` is the format in which it was restored. `promotion` loads the prompt's prefix
    from disk, once at most.
    """

    sequence: Sequence
    caches: Caches | None = None
    unfinished_pass: PassInTurns | None = None
    view: MultimodalPrompt | None = None
    preallocator: "CachePreallocator | None" = None
    last_chunk: Chunk[Record] | None = None
    storage: StorageFormat | None = None
    promotion: Promotion | None = None

    def tokens(self, start: int, end: int) -> Tokens:
        """Return the tokens of a part of the prompt."""
        tokens: Tokens = np.frombuffer(self.sequence.prompt_token_ids[start:end], dtype=np.uint32)
        return tokens

    def take_caches(self) -> Caches:
        """Hand the caches to a decode batch."""
        assert self.caches is not None, "a prompt is restored first"
        caches, self.caches, self.view, self.preallocator = self.caches, None, None, None
        return caches

    def preallocate(self, capacity: int, stream: mx.Stream, bytes_per_second: float) -> None:
        """Grow the caches to `capacity` tokens, some layers each time.

        See CachePreallocator.
        """
        assert self.caches is not None, "a prompt is restored first"
        if self.preallocator is None:
            self.preallocator = CachePreallocator(
                self.caches,
                capacity,
                enough=min(capacity, self.sequence.num_prompt_tokens + OUTPUT_RESERVE_TOKENS),
                stream=stream,
                bytes_per_second=bytes_per_second,
            )
        self.preallocator.advance()


class CachePreallocator:
    """Allocates a whole prompt's caches, some layers each turn, beside decoding rows.

    Left alone, caches grow by 256 tokens and copy everything each time, which delays decoding rows in the
    middle of a long prompt. Allocated at once, they delay them as well where new memory is slow. So new
    arrays are zeroed on a stream of their own, and a turn later what a layer holds moves there.
    """

    def __init__(
        self, caches: Caches, num_tokens: int, *, enough: int, stream: mx.Stream, bytes_per_second: float
    ) -> None:
        """Allocate `num_tokens` in layers that have less than `enough`.

        Each layer must hold something. `stream` has no other user. `bytes_per_second` is how fast memory is
        touched for the first time.
        """
        growing = [layer for layer in leaves(caches) if grows(layer) and not layer.empty()]
        self._layers = [layer for layer in growing if growing_arrays(layer)[0].shape[2] < enough]
        self._num_a_turn = -(-len(self._layers) // _NUM_TURNS)
        self._num_tokens = num_tokens
        self._allocated: list[tuple[Any, list[mx.array]]] = []
        self._ready_at = 0.0
        self._stream = stream
        self._bytes_per_second = bytes_per_second

    def advance(self) -> None:
        """Move layers into arrays that are ready, and allocate the next.

        The arrays are those of the last turn. MLX does not tell when an array is computed, so the time is
        estimated.
        """
        if not (self._layers or self._allocated) or time.monotonic() < self._ready_at:
            return
        for layer, targets in self._allocated:
            set_arrays(
                layer,
                [
                    _moved(array, target, layer.offset)
                    for array, target in zip(growing_arrays(layer), targets, strict=True)
                ],
            )
        turn, self._layers = self._layers[: self._num_a_turn], self._layers[self._num_a_turn :]
        with mx.stream(self._stream):
            self._allocated = [(layer, list(map(self._zeros, growing_arrays(layer)))) for layer in turn]
        begun = [target for _, targets in self._allocated for target in targets]
        mx.async_eval(begun)  # type: ignore[no-untyped-call]
        num_bytes = sum(array.nbytes for array in begun)
        self._ready_at = time.monotonic() + num_bytes / self._bytes_per_second

    def _zeros(self, array: mx.array) -> mx.array:
        batch, heads, _, dim = array.shape
        return mx.zeros((batch, heads, self._num_tokens, dim), dtype=array.dtype)


def _moved(array: mx.array, target: mx.array, num_tokens: int) -> mx.array:
    target[..., :num_tokens, :] = array[..., :num_tokens, :]
    return target
