"""Prefix index: which prefixes are stored, and which may be evicted.

Pure; payloads are opaque. Policy:

- Eviction is LRU over leaves. A chunk is always older in the order of use than its parent, so the oldest
  evictable chunk is a leaf. States have a separate LRU order within MAX_STATE_SHARE of the bytes.
- A chunk expires after the longest `ttl_seconds` of those who published or used it, counted from the last
  use; without a `ttl_seconds` never. An expired chunk does not match. A parent outlives its children.
- A pinned chunk neither expires nor is evicted, and all together take at most MAX_PINNED_SHARE; a leased one
  is not evicted until its release.
- With `shares_fairly` every caller with entries has an equal share of the bytes and buffers in use. Entries
  of callers with more than their share of what is short are evicted before those of others.

Owned by one thread.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Generic, TypeVar

from mlxctl.ir.tokens import Salt, Tokens, caller_digest, overlapping
from mlxctl.prefix_cache.chunks import CHUNK_TOKENS, Key, chunk_key, root_key, to_24_bit
from mlxctl.prefix_cache.entries import Checkpoint, Chunk, P, PrefixMatch, shared
from mlxctl.prefix_cache.eviction import EvictionLog, first_over_share, have_equal_start
from mlxctl.prefix_cache.policy import MAX_PINNED_SHARE, MAX_STATE_SHARE, EvictionReason
from mlxctl.prefix_cache.shared_segments import ReusablePrefix, SplitPayload, longest_reusable_prefix
from mlxctl.prefix_cache.siblings import MAX_CLOSEST
from mlxctl.prefix_cache.tree import ChunkTree

E = TypeVar("E")


def _one_buffer(_: object) -> int:
    return 1


class PrefixIndex(Generic[P]):
    """Prefixes of all namespaces within one budget of bytes and buffers.

    `ceiling_bytes` is the size that free memory allows now, if that is known. `buffers_of` counts the
    buffers of a payload; `clock` returns unix seconds. `split` cuts a payload after
    some of its tokens; without it, sibling chunks share no payload. `on_evict` receives every leaf before it
    is evicted for the budget, `on_release` every payload that left the index. Neither may change the index.
    """

    def __init__(
        self,
        *,
        max_bytes: int,
        max_buffers: int | None = None,
        buffers_of: Callable[[P], int] = _one_buffer,
        split: "SplitPayload[P] | None" = None,
        shares_fairly: bool = False,
        clock: Callable[[], float] = time.time,
        on_evict: "Callable[[Chunk[P]], object] | None" = None,
        on_release: Callable[[P], None] | None = None,
    ) -> None:
        self.max_bytes = max_bytes
        self.max_buffers = max_buffers
        self.ceiling_bytes: int | None = None
        self.num_evicted = self.num_evicted_bytes = 0
        self._shares_fairly = shares_fairly
        self._clock = clock
        self._on_evict = on_evict
        self._tree: ChunkTree[P] = ChunkTree(buffers_of=buffers_of, split=split, on_release=on_release)
        self._eviction_log = EvictionLog()
        # Lower bound of all expiry times.
        self._next_expiry = math.inf

    def __len__(self) -> int:
        return len(self._tree)

    @property
    def num_bytes(self) -> int:
        """Bytes of all payloads and states."""
        return self._tree.num_bytes

    @property
    def num_tokens(self) -> int:
        """Tokens of all chunks."""
        return self._tree.num_tokens

    @property
    def depths(self) -> dict[int, int]:
        """Number of chunks by depth.

        Depth is the position of a chunk's end, rounded up to a power of two.
        """
        return {depth: number for depth, number in sorted(self._tree.depths.items()) if number}

    def oldest_seconds(self) -> float | None:
        """Return the time since the last use of the oldest chunk.

        In seconds; None without a used one.
        """
        oldest = next((chunk for chunk in self._tree.order if chunk.used_at), None)
        return max(self._clock() - oldest.used_at, 0.0) if oldest is not None else None

    @property
    def num_buffers(self) -> int:
        """Buffers of all payloads and states."""
        return self._tree.num_buffers

    @property
    def num_states(self) -> int:
        """Number of states; one that several chunks own counts once."""
        return len(self._tree.states)

    def match(self, namespace: bytes, tokens: Tokens, salts: Sequence[Salt] = ()) -> PrefixMatch[P]:
        """Return the longest stored prefix of `tokens`.

        Does not count as a use.
        """
        return self._tree.match(namespace, tokens, salts, now=self._clock())

    def reusable_prefix(
        self, namespace: bytes, parent: "Chunk[P] | None", tokens: bytes, salts: Sequence[Salt] = ()
    ) -> "ReusablePrefix[P]":
        """Return which leading tokens of a new chunk have a stored payload.

        `tokens` are packed. The result is valid until the index changes.
        """
        siblings = self._tree.children_of(namespace, parent)
        if not siblings or not self._tree.can_split:
            return ReusablePrefix()
        return longest_reusable_prefix(siblings, to_24_bit(tokens), salts)

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
        """Add a chunk of packed `tokens` after `parent`.

        The parent is a full chunk, or None. `payload` is that of the tokens after the `reused` ones. Returns
        the chunk, or a stored one that starts with the same tokens; None when the parent is not stored or the
        budget is too small. After the last chunk of a run, the caller calls `touch` once with the same
        `ttl_seconds`. Raises ValueError for token ids of more than 24 bits.
        """
        if parent is not None and not self.contains(parent):
            return None
        start = parent.end if parent is not None else 0
        assert start % CHUNK_TOKENS == 0, "chunks lie on a grid"
        ids = to_24_bit(tokens)
        existing = self._tree.children_of(namespace, parent).covering(ids, salts)
        if existing is not None:
            _extend_expiry(existing, self._expiry(ttl_seconds))
            return existing
        chunk = Chunk(
            key=chunk_key(parent.key if parent else root_key(namespace), tokens, salts, start=start),
            parent=parent,
            start=start,
            ids=ids,
            payload=payload,
            payload_bytes=num_bytes,
            namespace=namespace,
            caller=parent.caller if parent is not None else shared(caller_digest(salts)),
            salts=shared(overlapping(salts, start, start + len(tokens) // 4)),
            expires_at=-math.inf,
        )
        _extend_expiry(chunk, self._expiry(ttl_seconds))
        self._next_expiry = min(self._next_expiry, chunk.expires_at)
        self._tree.add(chunk, reused)
        self._merge_siblings(chunk)
        self.evict()
        return chunk if self.contains(chunk) else None

    def reserve(self, num_bytes: int) -> bool:
        """Evict for a payload to copy; return whether it may be.

        Only `ceiling_bytes` counts: the memory that is free now.
        """
        if self.ceiling_bytes is None:
            return True
        self.shrink(max(0, self.ceiling_bytes - num_bytes))
        return self.num_bytes + num_bytes <= self.ceiling_bytes

    def covering(
        self, namespace: bytes, parent: "Chunk[P] | None", tokens: bytes, salts: Sequence[Salt] = ()
    ) -> "Chunk[P] | None":
        """Return the chunk that `publish` would return instead of adding one."""
        children = self._tree.children_of(namespace, parent)
        return children.covering(to_24_bit(tokens), salts) if children else None

    def contains(self, chunk: "Chunk[P]") -> bool:
        """Whether this very chunk is in the index."""
        return self._tree.contains(chunk)

    def add_checkpoint(self, chunk: Chunk[P], checkpoint: Checkpoint[P]) -> None:
        """Add a state to a chunk, unless it has one there.

        The position is after the chunk's start and up to its end.
        """
        assert chunk.start < checkpoint.position <= chunk.end, "a checkpoint lies in its chunk"
        if chunk.has_checkpoint_at(checkpoint.position):
            return
        self._tree.add_checkpoint(chunk, checkpoint)
        self.evict()

    def drop_checkpoint(self, chunk: Chunk[P], checkpoint: Checkpoint[P]) -> None:
        """Remove a state from this chunk; other owners keep it."""
        self._tree.drop_checkpoint(chunk, checkpoint)

    def touch_state(self, checkpoint: Checkpoint[P]) -> None:
        """Make a stored state the most recently used."""
        self._tree.states.touch(checkpoint)

    def touch(self, chunk: Chunk[P], *, ttl_seconds: float | None = None) -> None:
        """Make a chunk's path the most recently used; extend its lifetime."""
        _extend_expiry(chunk, self._expiry(ttl_seconds))
        now = self._clock()
        for ancestor in chunk.ancestors():
            self._tree.order.touch(ancestor)
            ancestor.used_at = now

    def find(self, key: Key) -> "Chunk[P] | None":
        """Return the chunk with this key."""
        return self._tree.find(key)

    def pin(self, key: Key) -> bool:
        """Protect the prefix that ends with this chunk until `unpin`.

        False when not stored, and when pinned prefixes would take more than MAX_PINNED_SHARE of the bytes.
        """
        chunk = self.find(key)
        if chunk is None or self._pinned_bytes(chunk) > self.max_bytes * MAX_PINNED_SHARE:
            return False
        self.keep_pinned(chunk)
        return True

    def keep_pinned(self, chunk: Chunk[P]) -> None:
        """Pin a stored chunk whose pin was accepted earlier, or elsewhere."""
        chunk.is_pinned = True
        _extend_expiry(chunk, math.inf)

    def unpin(self, key: Key) -> bool:
        """Make a pinned chunk evictable again; it does not expire.

        False when not pinned.
        """
        chunk = self.find(key)
        if chunk is None or not chunk.is_pinned:
            return False
        chunk.is_pinned = False
        return True

    def lease(self, match: PrefixMatch[P]) -> None:
        """Protect the chunks of the match from eviction until `release`.

        This is not a use.
        """
        for chunk in (*match.full, *(chunk for chunk, _ in match.partial)):
            chunk.num_leases += 1

    def release(self, match: PrefixMatch[P]) -> None:
        """Undo one `lease` of these chunks."""
        for chunk in (*match.full, *(chunk for chunk, _ in match.partial)):
            chunk.num_leases -= 1

    def evict(self) -> None:
        """Evict the oldest states beyond their share, then the oldest leaves."""
        states = self._tree.states
        while states.num_bytes > self.max_bytes * MAX_STATE_SHARE:
            free = (state for state in states if not any(owner.is_protected for owner in state.owners))
            victim = self._first_over_share(
                free, lambda state: state.owners[0].caller, self._tree.bytes_by_caller
            )
            if victim is None:
                break
            self._evict_state(victim)
        ceiling = self.max_bytes if self.ceiling_bytes is None else self.ceiling_bytes
        self.shrink(min(self.max_bytes, ceiling))

    def shrink(self, max_bytes: int) -> None:
        """Evict the oldest leaves down to `max_bytes`.

        The buffer budget is enforced, too. Protected chunks stay.
        """
        while (has_too_many_bytes := self.num_bytes > max_bytes) or (
            self.max_buffers is not None and self.num_buffers > self.max_buffers
        ):
            evictable = (chunk for chunk in self._tree.order if chunk.is_evictable)
            victim = self._first_over_share(
                evictable,
                lambda chunk: chunk.caller,
                self._tree.bytes_by_caller if has_too_many_bytes else self._tree.buffers_by_caller,
            )
            if victim is None:
                return
            if self._on_evict is not None:
                self._on_evict(victim)
            num_bytes = self.num_bytes
            self._remove_and_log(victim, "evicted")
            self.num_evicted += 1
            self.num_evicted_bytes += num_bytes - self.num_bytes

    def clear(self) -> int:
        """Remove all chunks except protected ones and their ancestors; return how many."""
        return self._clear(list(self._tree.order))

    def drop(self, key: Key) -> int:
        """Remove a chunk and its descendants as `clear` does.

        Returns how many chunks.
        """
        chunk = self.find(key)
        return self._clear(chunk.with_descendants()[::-1]) if chunk is not None else 0

    def discard(self, chunk: Chunk[P]) -> None:
        """Remove an unusable chunk and its descendants, even if leased or pinned."""
        for descendant in reversed(chunk.with_descendants()):
            if self.contains(descendant):
                self._tree.remove(descendant)

    def expire(self) -> int:
        """Remove expired chunks; return how many."""
        now = self._clock()
        if now < self._next_expiry:
            return 0
        # One pass finds every chunk after its children, which are older and expire no later.
        expired = [chunk for chunk in self._tree.order if chunk.expires_at <= now]
        num_before = len(self)
        for chunk in expired:
            if chunk.is_evictable:
                self._remove_and_log(chunk, "expired")
        self._next_expiry = min((chunk.expires_at for chunk in self.chunks()), default=math.inf)
        return num_before - len(self)

    def eviction_reason(
        self, namespace: bytes, match: PrefixMatch[P], tokens: Tokens
    ) -> EvictionReason | None:
        """Return why the chunk after the match was removed, if any was."""
        parent = match.full[-1] if match.full else None
        start = parent.end if parent is not None else 0
        ids = to_24_bit(tokens[start : start + CHUNK_TOKENS].tobytes())
        now = self._clock()
        if self._next_expiry <= now:
            children = self._tree.children_of(namespace, parent)
            if any(child.expires_at <= now and have_equal_start(child.ids, ids) for child in children):
                return "expired"
        return self._eviction_log.reason(parent.key if parent else root_key(namespace), ids)

    def chunks(self) -> Iterator[Chunk[P]]:
        """Yield all chunks, the least recently used first."""
        return iter(self._tree.order)

    def check_integrity(self) -> None:
        """Recount all totals and check all links.

        An AssertionError is a bug in this package.
        """
        self._tree.check_integrity()
        assert all(chunk.expires_at >= self._next_expiry for chunk in self.chunks())

    def _first_over_share(
        self, entries: "Iterator[E]", caller: "Callable[[E], bytes]", used: "Counter[bytes]"
    ) -> "E | None":
        return first_over_share(entries, caller, used) if self._shares_fairly else next(entries, None)

    def _merge_siblings(self, chunk: Chunk[P]) -> None:
        """Share states with siblings, and replace siblings that the chunk extends."""
        siblings = self._tree.siblings(chunk)
        # All siblings that agree up to a state own it, so the closest ones have every state that fits.
        for sibling, _ in islice(siblings.closest(chunk.ids, chunk.salts), MAX_CLOSEST):
            if sibling is not chunk:
                self._tree.inherit_checkpoints(chunk, sibling)
        for sibling in siblings.extended_by(chunk):
            if not sibling.num_leases:
                chunk.is_pinned = chunk.is_pinned or sibling.is_pinned
                _extend_expiry(chunk, sibling.expires_at)
                self._tree.remove(sibling)

    def _expiry(self, ttl_seconds: float | None) -> float:
        return math.inf if ttl_seconds is None else self._clock() + ttl_seconds

    def _pinned_bytes(self, more: Chunk[P]) -> int:
        """Return the bytes of pinned prefixes, with that of `more`."""
        counted: set[Key] = set()
        num_bytes = 0
        for chunk in (more, *(each for each in self.chunks() if each.is_pinned)):
            for ancestor in chunk.ancestors():
                if ancestor.key in counted:
                    break
                counted.add(ancestor.key)
                num_bytes += ancestor.num_bytes
        return num_bytes

    def _clear(self, chunks: Iterable[Chunk[P]]) -> int:
        num_before = len(self)
        for chunk in chunks:
            if chunk.is_evictable:
                self._remove_and_log(chunk, "cleared")
        return num_before - len(self)

    def _remove_and_log(self, chunk: Chunk[P], reason: EvictionReason) -> None:
        self._tree.remove(chunk)
        parent = chunk.parent.key if chunk.parent is not None else root_key(chunk.namespace)
        self._eviction_log.add(parent, chunk.ids, reason)

    def _evict_state(self, state: Checkpoint[P]) -> None:
        if self._on_evict is not None:
            self._on_evict(state.owners[0])
        for owner in list(state.owners):
            self.drop_checkpoint(owner, state)


def _extend_expiry(chunk: Chunk[P], expires_at: float) -> None:
    # A parent expires no earlier than its children, so the walk can end at the first late one.
    for ancestor in chunk.ancestors():
        if ancestor.expires_at >= expires_at:
            return
        ancestor.expires_at = expires_at
