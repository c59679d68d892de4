"""Eviction order of chunks and states, and the log of evicted chunks.

Pure.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Generic, TypeVar

from mlxctl.prefix_cache.chunks import ID_BYTES, Key
from mlxctl.prefix_cache.entries import Checkpoint, Chunk, P
from mlxctl.prefix_cache.policy import MIN_REUSE_TOKENS, EvictionReason

E = TypeVar("E")

MAX_LOGGED_EVICTIONS = 4096
# Siblings are distinguished by as many leading tokens as a match needs to be restored.
_LEADING_BYTES = MIN_REUSE_TOKENS * ID_BYTES


class ChunkOrder(Generic[P]):
    """Chunks in order of use, as a linked list.

    The least recently used comes first. The links are fields of the chunks: an OrderedDict would take more
    memory per chunk than the rest of its index entry without the token ids.
    """

    def __init__(self) -> None:
        self._oldest: Chunk[P] | None = None
        self._newest: Chunk[P] | None = None

    def __iter__(self) -> "Iterator[Chunk[P]]":
        """Yield all chunks, the least recently used first.

        Only the chunk yielded last may be removed during the iteration.
        """
        chunk = self._oldest
        while chunk is not None:
            following = chunk.newer
            yield chunk
            chunk = following

    def add(self, chunk: "Chunk[P]") -> None:
        """Add a new chunk as the most recently used."""
        chunk.older, chunk.newer = self._newest, None
        if self._newest is not None:
            self._newest.newer = chunk
        else:
            self._oldest = chunk
        self._newest = chunk

    def remove(self, chunk: "Chunk[P]") -> None:
        """Remove a chunk, which must be in the list."""
        if chunk.older is not None:
            chunk.older.newer = chunk.newer
        else:
            self._oldest = chunk.newer
        if chunk.newer is not None:
            chunk.newer.older = chunk.older
        else:
            self._newest = chunk.older
        chunk.older = chunk.newer = None

    def touch(self, chunk: "Chunk[P]") -> None:
        """Make a chunk of the list the most recently used."""
        self.remove(chunk)
        self.add(chunk)


class CheckpointOrder(Generic[P]):
    """States from the least to the most recently used, with their totals.

    A state that several chunks own counts once.
    """

    def __init__(self, buffers_of: Callable[[P], int]) -> None:
        self._buffers_of = buffers_of
        self._states: OrderedDict[int, Checkpoint[P]] = OrderedDict()
        self.num_bytes = 0
        self.num_buffers = 0

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> "Iterator[Checkpoint[P]]":
        return iter(self._states.values())

    def add(self, state: Checkpoint[P]) -> None:
        """Add a new state as the most recently used."""
        self._states[id(state)] = state
        self.num_bytes += state.num_bytes
        self.num_buffers += self._buffers_of(state.payload)

    def touch(self, state: Checkpoint[P]) -> None:
        """Make a state of the list the most recently used."""
        self._states.move_to_end(id(state))

    def add_owner(self, state: Checkpoint[P], chunk: Chunk[P]) -> None:
        """Let a chunk own the state, unless it has one there.

        A chunk has at most one state at a position.
        """
        if not chunk.has_checkpoint_at(state.position):
            chunk.checkpoints = (*chunk.checkpoints, state)
            state.owners.append(chunk)

    def remove_owner(self, state: Checkpoint[P], chunk: Chunk[P]) -> bool:
        """Take the state from a chunk.

        Returns whether it was the last owner.
        """
        chunk.checkpoints = tuple(other for other in chunk.checkpoints if other is not state)
        state.owners.remove(chunk)
        if state.owners:
            return False
        del self._states[id(state)]
        self.num_bytes -= state.num_bytes
        self.num_buffers -= self._buffers_of(state.payload)
        return True


def first_over_share(
    entries: "Iterator[E]", caller: "Callable[[E], bytes]", used: "Counter[bytes]"
) -> "E | None":
    """Return the first entry of a caller beyond its equal share.

    The first of all entries if there is no such caller.
    """
    first = next(entries, None)
    if first is None or len(used) < 2:
        return first
    share = used.total() / len(used)
    return next((entry for entry in chain([first], entries) if used[caller(entry)] > share), first)


class EvictionLog:
    """Reasons of the last MAX_LOGGED_EVICTIONS evictions, by parent key and leading tokens.

    Of these only a hash is kept: a wrong reason in 2 ** 50 is worth the memory.
    """

    def __init__(self) -> None:
        self._reasons: OrderedDict[int, EvictionReason] = OrderedDict()

    def add(self, parent: Key, ids: bytes, reason: EvictionReason) -> None:
        """Record that the chunk of `ids` after `parent` was removed."""
        entry = _hash(parent, ids)
        self._reasons.pop(entry, None)
        self._reasons[entry] = reason
        if len(self._reasons) > MAX_LOGGED_EVICTIONS:
            self._reasons.popitem(last=False)

    def reason(self, parent: Key, ids: bytes) -> EvictionReason | None:
        """Return why the chunk with the leading tokens of `ids` was removed."""
        return self._reasons.get(_hash(parent, ids))


def _hash(parent: Key, ids: bytes) -> int:
    return hash((parent, ids[:_LEADING_BYTES]))


def have_equal_start(one: bytes, other: bytes) -> bool:
    """Whether the eviction log treats two chunks as the same one."""
    return one[:_LEADING_BYTES] == other[:_LEADING_BYTES]
