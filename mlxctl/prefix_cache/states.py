"""The states of layers that cannot be cut: what they take, and which was used longest ago. Pure."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic

from mlxctl.prefix_cache.entries import Checkpoint, Chunk, P


class CheckpointOrder(Generic[P]):
    """Every state that some chunk has, in the order of its use. What chunks share counts once."""

    def __init__(self, buffers_of: Callable[[P], int]) -> None:
        self._buffers_of = buffers_of
        # The least recently used first.
        self._states: OrderedDict[int, Checkpoint[P]] = OrderedDict()
        self.num_bytes = 0
        self.num_buffers = 0

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> "Iterator[Checkpoint[P]]":
        return iter(self._states.values())

    def add(self, state: Checkpoint[P]) -> None:
        """Count a new state, as the most recently used."""
        self._states[id(state)] = state
        self.num_bytes += state.num_bytes
        self.num_buffers += self._buffers_of(state.payload)

    def touch(self, state: Checkpoint[P]) -> None:
        """Make a state that is in here the most recently used."""
        self._states.move_to_end(id(state))

    def add_owner(self, state: Checkpoint[P], chunk: Chunk[P]) -> None:
        """Let a chunk have the state, too, unless it has one at that position."""
        if not chunk.has_checkpoint_at(state.position):
            chunk.checkpoints = (*chunk.checkpoints, state)
            state.owners.append(chunk)

    def remove_owner(self, state: Checkpoint[P], chunk: Chunk[P]) -> bool:
        """Let a chunk have it no more; return whether it is gone, because no other has it."""
        chunk.checkpoints = tuple(other for other in chunk.checkpoints if other is not state)
        state.owners.remove(chunk)
        if state.owners:
            return False
        del self._states[id(state)]
        self.num_bytes -= state.num_bytes
        self.num_buffers -= self._buffers_of(state.payload)
        return True
