"""Chunk tree: storage of the prefix index, without a policy. Pure.

Invariants, recounted by `check_integrity`: a chunk's parent is in the tree as long as the chunk is; a chunk
shorter than CHUNK_TOKENS has no children; `num_bytes` is the sum of all payloads, `num_buffers` that of their
buffers.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Generic

from mlxctl.ir.tokens import Salt, Tokens
from mlxctl.prefix_cache.chunks import (
    CHUNK_TOKENS,
    ID_BYTES,
    Key,
    chunk_key,
    root_key,
    to_24_bit,
)
from mlxctl.prefix_cache.entries import Checkpoint, Chunk, P, PrefixMatch, SharedSegment
from mlxctl.prefix_cache.eviction import CheckpointOrder, ChunkOrder
from mlxctl.prefix_cache.integrity_check import check_links, check_payloads
from mlxctl.prefix_cache.shared_segments import ReusablePrefix, SplitPayload, attach_segments
from mlxctl.prefix_cache.siblings import Siblings

# Chunks that a match may end in. The first is the best; others serve where that one has no state, or expired.
_MAX_PARTIAL = 32


class ChunkTree(Generic[P]):
    """Chunks of all namespaces with their order of use and memory totals.

    `buffers_of` counts the buffers of a payload. `split` cuts a payload after some of its tokens; without it,
    siblings share no payload. `on_release` receives each payload that left the tree and must not change it.
    `depths` counts chunks by the position of their end, rounded up to a power of two. `bytes_by_caller` and
    `buffers_by_caller` count payloads and states by the digest of their caller. Callers share nothing with
    each other.
    """

    def __init__(
        self,
        *,
        buffers_of: Callable[[P], int],
        split: "SplitPayload[P] | None",
        on_release: Callable[[P], None] | None,
    ) -> None:
        self._buffers_of = buffers_of
        self._split = split
        self._on_release = on_release
        self._chunk_bytes = 0
        self._chunk_buffers = 0
        self.bytes_by_caller: Counter[bytes] = Counter()
        self.buffers_by_caller: Counter[bytes] = Counter()
        self.num_tokens = 0
        self.depths: Counter[int] = Counter()
        self._chunks: dict[Key, Chunk[P]] = {}
        self._roots: dict[Key, Siblings[Chunk[P]]] = {}
        self.order: ChunkOrder[P] = ChunkOrder()
        self.states: CheckpointOrder[P] = CheckpointOrder(buffers_of)

    def __len__(self) -> int:
        return len(self._chunks)

    @property
    def num_bytes(self) -> int:
        """Bytes of all payloads and states."""
        return self._chunk_bytes + self.states.num_bytes

    @property
    def num_buffers(self) -> int:
        """Buffers of all payloads and states."""
        return self._chunk_buffers + self.states.num_buffers

    @property
    def can_split(self) -> bool:
        """Whether siblings can share payloads."""
        return self._split is not None

    def find(self, key: Key) -> "Chunk[P] | None":
        """Return the chunk with this key."""
        return self._chunks.get(key)

    def contains(self, chunk: "Chunk[P]") -> bool:
        """Whether this very chunk is in the tree."""
        return self._chunks.get(chunk.key) is chunk

    def match(
        self, namespace: bytes, tokens: Tokens, salts: Sequence[Salt], *, now: float
    ) -> "PrefixMatch[P]":
        """Return the longest prefix among chunks that have not expired.

        Full chunks are found by key, the tokens after them by comparison with their siblings.
        """
        key = root_key(namespace)
        path: list[Chunk[P]] = []
        view = memoryview(tokens).cast("B")
        for start in range(0, len(tokens), CHUNK_TOKENS):
            piece = view[4 * start : 4 * (start + CHUNK_TOKENS)].tobytes()
            key = chunk_key(key, piece, salts, start=start)
            chunk = self._chunks.get(key)
            if chunk is None or chunk.expires_at <= now:
                children = self.children_of(namespace, path[-1] if path else None)
                if not children:
                    break
                closest = children.closest(to_24_bit(piece), salts)
                living = (found for found in closest if found[0].expires_at > now)
                return PrefixMatch(tuple(path), tuple(islice(living, _MAX_PARTIAL)))
            path.append(chunk)
        return PrefixMatch(tuple(path))

    def children_of(self, namespace: bytes, parent: "Chunk[P] | None") -> "Siblings[Chunk[P]]":
        """Return a parent's children, or a namespace's first chunks; read-only."""
        children = parent.children if parent is not None else self._roots.get(root_key(namespace))
        return children if children is not None else Siblings(parent.end if parent is not None else 0)

    def siblings(self, chunk: Chunk[P]) -> "Siblings[Chunk[P]]":
        """Return the children of the chunk's parent, the chunk included; read-only."""
        return self.children_of(chunk.namespace, chunk.parent)

    def add(self, chunk: Chunk[P], reused: "ReusablePrefix[P] | None" = None) -> None:
        """Add a chunk as the most recently used.

        Its payload starts after the `reused` tokens.
        """
        if chunk.parent is None:
            children = self._roots.setdefault(root_key(chunk.namespace), Siblings(0))
        else:
            children = chunk.parent.children = chunk.parent.children or Siblings(chunk.start)
        children.add(chunk)
        self._chunks[chunk.key] = chunk
        self.order.add(chunk)
        self.num_tokens += chunk.num_tokens
        self.depths[_depth(chunk)] += 1
        self._charge(chunk, chunk.payload_bytes, self._buffers_of(chunk.payload))
        if reused is not None and reused.num_tokens:
            assert self._split is not None, "only payloads that can be split are reused"
            for segment in attach_segments(chunk, reused, self._split):
                self._charge(chunk, 0, self._buffers_of(segment.payload))

    def add_checkpoint(self, chunk: Chunk[P], checkpoint: Checkpoint[P]) -> None:
        """Add a state to the chunk and matching siblings.

        These have the same tokens up to its position.
        """
        self.states.add(checkpoint)
        self._charge_state(chunk, checkpoint, 1)
        shared_ids = chunk.ids[: ID_BYTES * (checkpoint.position - chunk.start)]
        for sibling in self.siblings(chunk).starting_with(shared_ids, chunk.salts):
            if sibling is chunk or sibling.agrees_with(chunk, checkpoint.position):
                self.states.add_owner(checkpoint, sibling)

    def inherit_checkpoints(self, chunk: Chunk[P], sibling: Chunk[P]) -> None:
        """Give the chunk the sibling's states up to where their tokens differ."""
        for checkpoint in sibling.checkpoints:
            if sibling.agrees_with(chunk, checkpoint.position):
                self.states.add_owner(checkpoint, chunk)

    def drop_checkpoint(self, chunk: Chunk[P], checkpoint: Checkpoint[P]) -> None:
        """Take a state from one chunk.

        Its payload is released with the last owner.
        """
        if self.states.remove_owner(checkpoint, chunk):
            self._charge_state(chunk, checkpoint, -1)
            self._release(checkpoint.payload)

    def remove(self, chunk: Chunk[P]) -> None:
        """Remove a chunk without children.

        Its states and segments are released unless other chunks own them.
        """
        for checkpoint in chunk.checkpoints:
            self.drop_checkpoint(chunk, checkpoint)
        siblings = self.siblings(chunk)
        siblings.remove(chunk)
        if chunk.parent is not None and not siblings:
            chunk.parent.children = None
        del self._chunks[chunk.key]
        self.order.remove(chunk)
        self.num_tokens -= chunk.num_tokens
        self.depths[_depth(chunk)] -= 1
        self._charge(chunk, -chunk.payload_bytes, -self._buffers_of(chunk.payload))
        self._release(chunk.payload)
        for segment in chunk.shared_segments:
            self._drop_owner(segment, chunk)

    def check_integrity(self) -> None:
        """Recount all totals and check all links.

        An AssertionError is a bug in this package.
        """
        check_links(self._chunks, list(self.order), list(self.states))
        check_payloads(self._chunks.values(), self._buffers_of, self._chunk_bytes, self._chunk_buffers)
        assert self.num_tokens == sum(chunk.num_tokens for chunk in self._chunks.values())
        assert self.bytes_by_caller.total() == self.num_bytes
        assert self.buffers_by_caller.total() == self.num_buffers
        callers = {chunk.caller for chunk in self._chunks.values()}
        assert self.bytes_by_caller.keys() | self.buffers_by_caller.keys() <= callers
        assert all(
            chunk.parent is None or chunk.parent.caller == chunk.caller for chunk in self._chunks.values()
        )
        assert +self.depths == Counter(map(_depth, self._chunks.values()))
        assert self.states.num_bytes == sum(state.num_bytes for state in self.states)
        assert self.states.num_buffers == sum(self._buffers_of(state.payload) for state in self.states)
        assert all(chunk in self.siblings(chunk) for chunk in self._chunks.values())

    def _charge(self, chunk: Chunk[P], num_bytes: int, num_buffers: int) -> None:
        """Count a payload of the chunk's caller."""
        self._chunk_bytes += num_bytes
        self._chunk_buffers += num_buffers
        self._charge_caller(chunk.caller, num_bytes, num_buffers)

    def _charge_state(self, chunk: Chunk[P], checkpoint: Checkpoint[P], sign: int) -> None:
        self._charge_caller(
            chunk.caller, sign * checkpoint.num_bytes, sign * self._buffers_of(checkpoint.payload)
        )

    def _charge_caller(self, caller: bytes, num_bytes: int, num_buffers: int) -> None:
        for counts, num in ((self.bytes_by_caller, num_bytes), (self.buffers_by_caller, num_buffers)):
            counts[caller] += num
            if not counts[caller]:
                del counts[caller]

    def _drop_owner(self, segment: SharedSegment[P], chunk: Chunk[P]) -> None:
        segment.owners.remove(chunk)
        if not segment.owners:
            self._charge(chunk, -segment.num_bytes, -self._buffers_of(segment.payload))
            self._release(segment.payload)

    def _release(self, payload: P) -> None:
        if self._on_release is not None:
            self._on_release(payload)


def _depth(chunk: Chunk[P]) -> int:
    """Return the power of two that bounds the chunk's end."""
    return 1 << (chunk.end - 1).bit_length()
