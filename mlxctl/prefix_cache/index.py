"""Which prefixes are there, and what may go. Pure; payloads are opaque, and no method interprets one.

A tree of chunks, named by their chain. Every chunk holds the payload of exactly its tokens, of which the
first may be shared with others (see `stems`), and any number of checkpoints (the state of layers that cannot
be cut, at one position). Invariants, recounted by `check_integrity`: a chunk's parent is in the index as long
as the chunk is; a chunk shorter than the full size has no children; `num_bytes` is the sum of all payloads,
`num_state_bytes` that of the states among them, `num_buffers` that of their buffers.

States have an order of use of their own, and a share of the room: one state may be as large as the keys and
values of thousands of tokens, and would push out all the rest.

A chunk lives until it is evicted, or for a time: until the last of those who published or used it with a
`ttl_seconds` need it no more; who names none needs it for good. What has expired is not found. A pinned chunk
neither expires nor is evicted.

Recency is one order over all chunks in which a chunk is always older than its parent, so that the oldest is
always a leaf and eviction is O(1). Owned by one thread.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Generic

from mlxctl.ir.tokens import Salt, Tokens, overlapping
from mlxctl.prefix_cache.chunks import CHUNK_TOKENS, Key, chunk_key, root_key, to_24_bit
from mlxctl.prefix_cache.entries import Checkpoint, Chunk, P, PrefixMatch, SharedSegment
from mlxctl.prefix_cache.eviction_reasons import EvictionLog, EvictionReason, have_equal_start
from mlxctl.prefix_cache.integrity_check import check_index
from mlxctl.prefix_cache.lookup import agree_up_to, covering, longest_match
from mlxctl.prefix_cache.recency import ChunkOrder
from mlxctl.prefix_cache.shared_segments import (
    ReusablePrefix,
    SplitPayload,
    attach_segments,
    longest_reusable_prefix,
)
from mlxctl.prefix_cache.states import CheckpointOrder

# How much of the room may be states.
STATE_SHARE = 0.5


def _one_buffer(_: object) -> int:
    return 1


class PrefixIndex(Generic[P]):
    """All prefixes of all namespaces within one budget, in bytes and in buffers (`buffers_of` counts those of
    a payload).

    `clock` gives unix seconds. Where payloads cannot be cut by `split`, chunks that begin alike share none.
    `on_evict` is told of every leaf that is about to go for want of room, `on_release` of every payload that
    has left the index, for whatever reason. Neither may change the index.
    """

    def __init__(
        self,
        *,
        max_bytes: int,
        max_buffers: int | None = None,
        buffers_of: Callable[[P], int] = _one_buffer,
        split: "SplitPayload[P] | None" = None,
        clock: Callable[[], float] = time.time,
        on_evict: "Callable[[Chunk[P]], object] | None" = None,
        on_release: Callable[[P], None] | None = None,
    ) -> None:
        self.max_bytes = max_bytes
        self.max_buffers = max_buffers
        self._buffers_of = buffers_of
        self._split = split
        self._clock = clock
        self._on_evict = on_evict
        self._on_release = on_release
        self.num_evicted = 0
        self.eviction_log = EvictionLog()
        self._payload_bytes = 0
        self._payload_buffers = 0
        self._chunks: dict[Key, Chunk[P]] = {}
        self._order: ChunkOrder[P] = ChunkOrder()
        self._states: CheckpointOrder[P] = CheckpointOrder(buffers_of)
        self._roots: dict[Key, dict[Key, Chunk[P]]] = {}
        # No chunk expires before.
        self._next_expiry = math.inf

    def __len__(self) -> int:
        return len(self._chunks)

    @property
    def num_bytes(self) -> int:
        """Bytes of all payloads and states."""
        return self._payload_bytes + self._states.num_bytes

    @property
    def num_state_bytes(self) -> int:
        """Bytes of the states alone."""
        return self._states.num_bytes

    @property
    def num_buffers(self) -> int:
        """Buffers of all payloads and states."""
        return self._payload_buffers + self._states.num_buffers

    @property
    def num_states(self) -> int:
        """Checkpoints that are kept; what chunks share counts once."""
        return len(self._states)

    def match(self, namespace: bytes, tokens: Tokens, salts: Sequence[Salt] = ()) -> PrefixMatch[P]:
        """Return the longest prefix of `tokens` that is known. Touches nothing: a look is no use."""
        root = root_key(namespace)
        return longest_match(self._roots.get(root, {}), root, tokens, salts, now=self._clock())

    def reusable_prefix(
        self, namespace: bytes, parent: "Chunk[P] | None", tokens: bytes, salts: Sequence[Salt] = ()
    ) -> "ReusablePrefix[P]":
        """Return what a chunk of packed `tokens` after `parent` need not bring along.

        It holds until the index changes.
        """
        if self._split is None:
            return ReusablePrefix()
        return longest_reusable_prefix(
            self._children_of(namespace, parent).values(), to_24_bit(tokens), salts
        )

    def publish(
        self,
        namespace: bytes,
        parent: "Chunk[P] | None",
        tokens: bytes,
        payload: P,
        num_bytes: int,
        salts: Sequence[Salt] = (),
        *,
        reused: "ReusablePrefix[P] | None" = None,
        ttl_seconds: float | None = None,
    ) -> "Chunk[P] | None":
        """Add a chunk of packed `tokens` after `parent` (None: at the beginning), which must be a full chunk
        that is still there.

        With an `reused` the payload is that of the tokens behind what is offered. Returns the chunk, or the
        one that was there already and begins with the same tokens; None when its parent is gone or the budget
        is too small. Whoever has published a run of chunks touches its path once, at the end, with the same
        `ttl_seconds`. Raises ValueError for ids beyond 24 bits.
        """
        if parent is not None and not self.contains(parent):
            return None
        start = parent.end if parent is not None else 0
        assert start % CHUNK_TOKENS == 0, "chunks lie on a grid"
        root = root_key(namespace)
        ids, reaching = to_24_bit(tokens), overlapping(salts, start, start + len(tokens) // 4)
        key = chunk_key(parent.key if parent is not None else root, tokens, salts, start=start)
        existing = covering(self._children_of(namespace, parent), ids, salts)
        if existing is not None:
            self._extend_expiry(existing, self._expiry(ttl_seconds))
            return existing
        chunk = Chunk(key, parent, start, ids, payload, num_bytes, namespace, reaching, expires_at=-math.inf)
        self._extend_expiry(chunk, self._expiry(ttl_seconds))
        self._next_expiry = min(self._next_expiry, chunk.expires_at)
        self._add(chunk)
        if reused is not None and reused.num_tokens:
            self._attach_segments(chunk, reused)
        self._merge_siblings(chunk)
        self.evict()
        return chunk if key in self._chunks else None

    def covering(
        self, namespace: bytes, parent: "Chunk[P] | None", tokens: bytes, salts: Sequence[Salt] = ()
    ) -> "Chunk[P] | None":
        """Return the chunk after `parent` that `publish` would return instead of adding one."""
        return covering(self._children_of(namespace, parent), to_24_bit(tokens), salts)

    def contains(self, chunk: "Chunk[P]") -> bool:
        """Whether the chunk is still in the index."""
        return self._chunks.get(chunk.key) is chunk

    def add_checkpoint(self, chunk: Chunk[P], checkpoint: Checkpoint[P]) -> None:
        """Keep a state in the chunk that covers its position (start < position <= end); one that is there
        already stays.
        """
        assert chunk.start < checkpoint.position <= chunk.end, "a checkpoint lies in its chunk"
        if chunk.has_checkpoint_at(checkpoint.position):
            return
        self._states.add(checkpoint)
        for sibling in self._siblings(chunk).values():
            if sibling is chunk or agree_up_to(sibling, chunk, checkpoint.position):
                self._states.add_owner(checkpoint, sibling)
        self.evict()

    def drop_checkpoint(self, chunk: Chunk[P], checkpoint: Checkpoint[P]) -> None:
        """Forget a state in this chunk; it is gone when no other has it."""
        if self._states.remove_owner(checkpoint, chunk):
            self._notify_release(checkpoint.payload)

    def touch_state(self, checkpoint: Checkpoint[P]) -> None:
        """Make a state that is in the index the most recently used."""
        self._states.touch(checkpoint)

    def touch(self, chunk: Chunk[P], *, ttl_seconds: float | None = None) -> None:
        """Make the path to this chunk the most recently used, each chunk on it newer than its children, and
        let it live on.
        """
        self._extend_expiry(chunk, self._expiry(ttl_seconds))
        now = self._clock()
        place: Chunk[P] | None = chunk
        while place is not None:
            self._order.touch(place)
            place.used_at = now
            place = place.parent

    def find(self, key: Key) -> "Chunk[P] | None":
        """Return the chunk with this key."""
        return self._chunks.get(key)

    def pin(self, key: Key) -> bool:
        """Keep the prefix that ends with this chunk, whatever the budget, until `unpin`; False when it is not
        there.
        """
        chunk = self._chunks.get(key)
        if chunk is None:
            return False
        chunk.is_pinned = True
        self._extend_expiry(chunk, math.inf)
        return True

    def unpin(self, key: Key) -> bool:
        """Let the chunk be evicted like any other, though it does not expire; False when it is not there or
        was not pinned.
        """
        chunk = self._chunks.get(key)
        if chunk is None or not chunk.is_pinned:
            return False
        chunk.is_pinned = False
        return True

    def lease(self, match: PrefixMatch[P]) -> None:
        """Keep the chunks of the match from eviction until `release`; does not change recency."""
        for chunk in (*match.full, *(chunk for chunk, _ in match.partial)):
            chunk.num_leases += 1

    def release(self, match: PrefixMatch[P]) -> None:
        """End a lease."""
        for chunk in (*match.full, *(chunk for chunk, _ in match.partial)):
            chunk.num_leases -= 1

    def evict(self) -> None:
        """Drop the oldest states beyond their share, then the oldest leaves, until the budget holds; nothing
        leased or pinned.
        """
        while self.num_state_bytes > self.max_bytes * STATE_SHARE:
            victim = next(
                (state for state in self._states if not any(owner.is_protected for owner in state.owners)),
                None,
            )
            if victim is None:
                break
            self._drop_state(victim)
        self.shrink(self.max_bytes)

    def shrink(self, max_bytes: int) -> None:
        """Drop the oldest leaves that are neither leased nor pinned until no more than `max_bytes`, or
        buffers, are held.
        """
        while self.num_bytes > max_bytes or (
            self.max_buffers is not None and self.num_buffers > self.max_buffers
        ):
            victim = next((chunk for chunk in self._order if chunk.is_evictable), None)
            if victim is None:
                return
            if self._on_evict is not None:
                self._on_evict(victim)
            self._remove_and_log(victim, "evicted")
            self.num_evicted += 1

    def clear(self) -> int:
        """Drop everything that is neither leased nor pinned, nor what such chunks build on; return how many
        chunks that were.
        """
        return self._drop_evictable(list(self._order))

    def drop(self, key: Key) -> int:
        """Drop the chunk and what builds on it, as `clear` does; return how many chunks that were."""
        chunk = self._chunks.get(key)
        return self._drop_evictable(chunk.with_descendants()[::-1]) if chunk is not None else 0

    def discard(self, chunk: Chunk[P]) -> None:
        """Drop the chunk and everything that builds on it, leased, pinned or not: it has turned out to be
        unusable.
        """
        for place in reversed(chunk.with_descendants()):
            if self.contains(place):
                self._remove(place)

    def expire(self) -> int:
        """Drop what has outlived its time and return how many chunks that were."""
        now = self._clock()
        if now < self._next_expiry:
            return 0
        # A child never outlives its parent and is always older, so one pass finds every chunk when its
        # children are gone.
        expired = [chunk for chunk in self._order if chunk.expires_at <= now]
        num_before = len(self)
        for chunk in expired:
            if chunk.is_evictable:
                self._remove_and_log(chunk, "expired")
        self._next_expiry = min((chunk.expires_at for chunk in self._chunks.values()), default=math.inf)
        return num_before - len(self)

    def eviction_reason(
        self, namespace: bytes, match: PrefixMatch[P], tokens: Tokens
    ) -> EvictionReason | None:
        """Return why what a prompt would go on with behind the full chunks of its match has left; None when
        nothing did.
        """
        start = match.full[-1].end if match.full else 0
        parent = match.full[-1].key if match.full else root_key(namespace)
        children = self._children_of(namespace, match.full[-1] if match.full else None)
        piece = to_24_bit(tokens[start : start + CHUNK_TOKENS].tobytes())
        now = self._clock()
        if any(child.expires_at <= now and have_equal_start(child.ids, piece) for child in children.values()):
            return "expired"
        return self.eviction_log.reason(parent, piece)

    def chunks(self) -> Iterator[Chunk[P]]:
        """All chunks, the least recently used first."""
        return iter(self._order)

    def check_integrity(self) -> None:
        """Recount everything; an AssertionError is a bug in here."""
        check_index(self._chunks, list(self._order), list(self._states))
        shared_segments = {
            id(shared_segment): shared_segment
            for chunk in self._chunks.values()
            for shared_segment in chunk.shared_segments
        }.values()
        payloads = [chunk.payload for chunk in self._chunks.values()] + [
            shared_segment.payload for shared_segment in shared_segments
        ]
        assert self._payload_bytes == sum(holder.payload_bytes for holder in self._chunks.values()) + sum(
            shared_segment.num_bytes for shared_segment in shared_segments
        )
        assert self._payload_buffers == sum(map(self._buffers_of, payloads))
        assert self._states.num_bytes == sum(state.num_bytes for state in self._states)
        assert self._states.num_buffers == sum(self._buffers_of(state.payload) for state in self._states)
        assert all(chunk.expires_at >= self._next_expiry for chunk in self._chunks.values())
        assert all(self._siblings(chunk)[chunk.key] is chunk for chunk in self._chunks.values())

    def _children_of(self, namespace: bytes, parent: "Chunk[P] | None") -> "dict[Key, Chunk[P]]":
        """The chunks after a parent; not to be changed."""
        return (parent.children if parent is not None else self._roots.get(root_key(namespace))) or {}

    def _add(self, chunk: Chunk[P]) -> None:
        if chunk.parent is None:
            children = self._roots.setdefault(root_key(chunk.namespace), {})
        else:
            children = chunk.parent.children = chunk.parent.children or {}
        children[chunk.key] = chunk
        self._chunks[chunk.key] = chunk
        self._order.add(chunk)
        self._payload_bytes += chunk.payload_bytes
        self._payload_buffers += self._buffers_of(chunk.payload)

    def _attach_segments(self, chunk: Chunk[P], reused: "ReusablePrefix[P]") -> None:
        assert self._split is not None, "only what can be cut is offered"
        for shared_segment in attach_segments(chunk, reused, self._split):
            self._payload_buffers += self._buffers_of(shared_segment.payload)

    def _merge_siblings(self, chunk: Chunk[P]) -> None:
        """Share the states of siblings that begin alike, and drop a sibling that says nothing more than the
        chunk does.
        """
        for sibling in list(self._siblings(chunk).values()):
            if sibling is chunk:
                continue
            for checkpoint in sibling.checkpoints:
                if agree_up_to(sibling, chunk, checkpoint.position):
                    self._states.add_owner(checkpoint, chunk)
            if chunk.starts_with(sibling.ids, sibling.salts) and not sibling.num_leases:
                self._inherit_lifetime(chunk, sibling)
                self._remove(sibling)

    def _inherit_lifetime(self, chunk: Chunk[P], sibling: Chunk[P]) -> None:
        """Let the chunk live as long as the sibling that it replaces."""
        chunk.is_pinned = chunk.is_pinned or sibling.is_pinned
        self._extend_expiry(chunk, sibling.expires_at)

    def _expiry(self, ttl_seconds: float | None) -> float:
        return math.inf if ttl_seconds is None else self._clock() + ttl_seconds

    @staticmethod
    def _extend_expiry(chunk: Chunk[P], expires_at: float) -> None:
        # A parent lives at least as long as its children, so the first that lives long enough ends the way
        # up.
        place: Chunk[P] | None = chunk
        while place is not None and place.expires_at < expires_at:
            place.expires_at = expires_at
            place = place.parent

    def _siblings(self, chunk: Chunk[P]) -> dict[Key, Chunk[P]]:
        return self._children_of(chunk.namespace, chunk.parent)

    def _drop_evictable(self, chunks: Sequence[Chunk[P]]) -> int:
        """Drop those that may go, given with every chunk before its parent."""
        num_before = len(self)
        for chunk in chunks:
            if chunk.is_evictable:
                self._remove_and_log(chunk, "cleared")
        return num_before - len(self)

    def _remove_and_log(self, chunk: Chunk[P], reason: EvictionReason) -> None:
        self._remove(chunk)
        parent = chunk.parent.key if chunk.parent is not None else root_key(chunk.namespace)
        self.eviction_log.add(parent, chunk.ids, reason)

    def _drop_state(self, state: Checkpoint[P]) -> None:
        if self._on_evict is not None:
            self._on_evict(state.owners[0])
        for owner in list(state.owners):
            self.drop_checkpoint(owner, state)

    def _remove(self, chunk: Chunk[P]) -> None:
        for checkpoint in chunk.checkpoints:
            self.drop_checkpoint(chunk, checkpoint)
        del self._siblings(chunk)[chunk.key]
        if chunk.parent is not None and not chunk.parent.children:
            chunk.parent.children = None
        del self._chunks[chunk.key]
        self._order.remove(chunk)
        self._payload_bytes -= chunk.payload_bytes
        self._payload_buffers -= self._buffers_of(chunk.payload)
        self._notify_release(chunk.payload)
        for shared_segment in chunk.shared_segments:
            self._release_segment(shared_segment, chunk)

    def _release_segment(self, shared_segment: SharedSegment[P], chunk: Chunk[P]) -> None:
        shared_segment.owners.remove(chunk)
        if not shared_segment.owners:
            self._payload_bytes -= shared_segment.num_bytes
            self._payload_buffers -= self._buffers_of(shared_segment.payload)
            self._notify_release(shared_segment.payload)

    def _notify_release(self, payload: P) -> None:
        if self._on_release is not None:
            self._on_release(payload)
