"""Which prefixes are there, and what may go. Pure; payloads are opaque, and no method interprets one.

A tree of chunks, named by their chain. Every chunk may hold one `kv` payload (for exactly its tokens) and any number of checkpoints
(the state of layers that cannot be cut, at one position). Invariants, recounted by `check_integrity`: a chunk's parent is in the
index as long as the chunk is; a chunk shorter than the full size has no children; `num_bytes` is the sum of all payloads,
`num_state_bytes` that of the states among them, `num_buffers` that of their buffers.

States have an order of use of their own, and a share of the room: one state may be as large as the keys and values of thousands of
tokens, and would push out all the rest.

A chunk lives until it is evicted, or for a time: until the last of those who published or used it with a `ttl_seconds` need it no
more; who names none needs it for good. What has expired is not found. A pinned chunk neither expires nor is evicted.

Recency is one order over all chunks in which a chunk is always older than its parent, so that the oldest is always a leaf and
eviction is O(1). Owned by one thread.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Generic

from mlxctl.prefix_cache.chunks import CHUNK_TOKENS, Key, Salt, Tokens, chunk_key, common_length, root_key
from mlxctl.prefix_cache.departures import Departure, Departures, begins_alike
from mlxctl.prefix_cache.entries import Checkpoint, Chunk, Match, P

# How much of the room may be states.
STATE_SHARE = 0.5


def _one_buffer(_: object) -> int:
    return 1


class PrefixIndex(Generic[P]):
    """All prefixes of all namespaces within one budget, in bytes and in buffers (`buffers_of` counts those of a payload).

    `clock` gives unix seconds.
    `on_evict` is told of every leaf that is about to go for want of room, `on_release` of every payload that has left the index,
    for whatever reason. Neither may change the index.
    """

    def __init__(
        self,
        *,
        max_bytes: int,
        max_buffers: int | None = None,
        buffers_of: Callable[[P], int] = _one_buffer,
        clock: Callable[[], float] = time.time,
        on_evict: "Callable[[Chunk[P]], object] | None" = None,
        on_release: Callable[[P], None] | None = None,
    ) -> None:
        self.max_bytes = max_bytes
        self.max_buffers = max_buffers
        self._buffers_of = buffers_of
        self._clock = clock
        self._on_evict = on_evict
        self._on_release = on_release
        self.num_bytes = 0
        self.num_state_bytes = 0
        self.num_buffers = 0
        self.num_evicted = 0
        self.departures = Departures()
        self._chunks: OrderedDict[Key, Chunk[P]] = OrderedDict()
        # The least recently used first.
        self._states: OrderedDict[int, Checkpoint[P]] = OrderedDict()
        self._roots: dict[Key, dict[Key, Chunk[P]]] = {}
        # No chunk expires before.
        self._next_expiry = math.inf

    def __len__(self) -> int:
        return len(self._chunks)

    @property
    def num_states(self) -> int:
        """Checkpoints that are kept; what chunks share counts once."""
        return len(self._states)

    def match(self, namespace: bytes, tokens: Tokens, salts: Sequence[Salt] = ()) -> Match[P]:
        """Return the longest prefix of `tokens` that is known. Touches nothing: a look is no use."""
        key = root_key(namespace)
        children = self._roots.get(key, {})
        view = memoryview(tokens).cast("B")
        path: list[Chunk[P]] = []
        now = self._clock()
        start = 0
        while start < len(tokens):
            piece = view[4 * start : 4 * (start + CHUNK_TOKENS)]
            key = chunk_key(key, piece.tobytes(), salts, start=start)
            chunk = children.get(key)
            if chunk is None or chunk.expires_at <= now:
                living = [child for child in children.values() if child.expires_at > now]
                return self._with_partial(path, living, piece, start, salts)
            path.append(chunk)
            children = chunk.children
            start += CHUNK_TOKENS
        return Match(tuple(path))

    def publish(
        self,
        namespace: bytes,
        parent: "Chunk[P] | None",
        tokens: bytes,
        payload: P,
        num_bytes: int,
        salts: Sequence[Salt] = (),
        *,
        ttl_seconds: float | None = None,
    ) -> "Chunk[P] | None":
        """Add a chunk of packed `tokens` after `parent` (None: at the beginning), which must be a full chunk that is still there.

        Returns the chunk, or the one that was there already and begins with the same tokens; None when its parent is gone or the
        budget is too small. Whoever has published a run of chunks touches its path once, at the end, with the same `ttl_seconds`.
        """
        if parent is not None and not self.holds(parent):
            return None
        start = parent.end if parent is not None else 0
        assert start % CHUNK_TOKENS == 0, "chunks lie on a grid"
        root = root_key(namespace)
        children = parent.children if parent is not None else self._roots.setdefault(root, {})
        key = chunk_key(parent.key if parent is not None else root, tokens, salts, start=start)
        existing = _covering(children, key, tokens)
        if existing is not None:
            self._live_on(existing, self._expiry(ttl_seconds))
            return existing
        chunk = Chunk(key, parent, start, tokens, payload, num_bytes, namespace, expires_at=-math.inf)
        self._live_on(chunk, self._expiry(ttl_seconds))
        self._next_expiry = min(self._next_expiry, chunk.expires_at)
        children[key] = chunk
        self._chunks[key] = chunk
        self.num_bytes += num_bytes
        self.num_buffers += self._buffers_of(payload)
        self._inherit(children, chunk)
        self.evict()
        return chunk if key in self._chunks else None

    def covering(self, namespace: bytes, parent: "Chunk[P] | None", key: Key, tokens: bytes) -> "Chunk[P] | None":
        """Return the chunk after `parent` that `publish` would return instead of adding one."""
        children = parent.children if parent is not None else self._roots.get(root_key(namespace), {})
        return _covering(children, key, tokens)

    def holds(self, chunk: "Chunk[P]") -> bool:
        """Whether the chunk is still in the index."""
        return self._chunks.get(chunk.key) is chunk

    def add_checkpoint(self, chunk: Chunk[P], checkpoint: Checkpoint[P]) -> None:
        """Keep a state in the chunk that covers its position (start < position <= end); one that is there already stays."""
        assert chunk.start < checkpoint.position <= chunk.end, "a checkpoint lies in its chunk"
        if chunk.has_checkpoint_at(checkpoint.position):
            return
        self._states[id(checkpoint)] = checkpoint
        self.num_bytes += checkpoint.num_bytes
        self.num_state_bytes += checkpoint.num_bytes
        self.num_buffers += self._buffers_of(checkpoint.payload)
        for sibling in self._siblings(chunk).values():
            if sibling is chunk or _agree(sibling, chunk, checkpoint.position):
                self._own(sibling, checkpoint)
        self.evict()

    def drop_checkpoint(self, chunk: Chunk[P], checkpoint: Checkpoint[P]) -> None:
        """Forget a state in this chunk; it is gone when no other has it."""
        chunk.checkpoints.remove(checkpoint)
        checkpoint.owners.remove(chunk)
        if not checkpoint.owners:
            del self._states[id(checkpoint)]
            self.num_bytes -= checkpoint.num_bytes
            self.num_state_bytes -= checkpoint.num_bytes
            self.num_buffers -= self._buffers_of(checkpoint.payload)
            if self._on_release is not None:
                self._on_release(checkpoint.payload)

    def touch_state(self, checkpoint: Checkpoint[P]) -> None:
        """Make a state that is in the index the most recently used."""
        self._states.move_to_end(id(checkpoint))

    def touch(self, chunk: Chunk[P], *, ttl_seconds: float | None = None) -> None:
        """Make the path to this chunk the most recently used, each chunk on it newer than its children, and let it live on."""
        self._live_on(chunk, self._expiry(ttl_seconds))
        now = self._clock()
        place: Chunk[P] | None = chunk
        while place is not None:
            self._chunks.move_to_end(place.key)
            place.used_at = now
            place = place.parent

    def find(self, key: Key) -> "Chunk[P] | None":
        """Return the chunk with this key."""
        return self._chunks.get(key)

    def pin(self, key: Key) -> bool:
        """Keep the prefix that ends with this chunk, whatever the budget, until `unpin`; False when it is not there."""
        chunk = self._chunks.get(key)
        if chunk is None:
            return False
        chunk.is_pinned = True
        self._live_on(chunk, math.inf)
        return True

    def unpin(self, key: Key) -> bool:
        """Let the chunk be evicted like any other, though it does not expire; False when it is not there or was not pinned."""
        chunk = self._chunks.get(key)
        if chunk is None or not chunk.is_pinned:
            return False
        chunk.is_pinned = False
        return True

    def lease(self, match: Match[P]) -> None:
        """Keep the chunks of the match from eviction until `release`; does not change recency."""
        for chunk in (*match.full, *(chunk for chunk, _ in match.partial)):
            chunk.num_leases += 1

    def release(self, match: Match[P]) -> None:
        """End a lease."""
        for chunk in (*match.full, *(chunk for chunk, _ in match.partial)):
            chunk.num_leases -= 1

    def evict(self) -> None:
        """Drop the oldest states beyond their share, then the oldest leaves, until the budget holds; nothing leased or pinned."""
        while self.num_state_bytes > self.max_bytes * STATE_SHARE:
            victim = next((state for state in self._states.values() if not any(map(_is_held, state.owners))), None)
            if victim is None:
                break
            self._drop_state(victim)
        self.shrink(self.max_bytes)

    def shrink(self, max_bytes: int) -> None:
        """Drop the oldest leaves that are neither leased nor pinned until no more than `max_bytes`, or buffers, are held."""
        while self.num_bytes > max_bytes or (self.max_buffers is not None and self.num_buffers > self.max_buffers):
            victim = next((chunk for chunk in self._chunks.values() if _may_go(chunk)), None)
            if victim is None:
                return
            if self._on_evict is not None:
                self._on_evict(victim)
            self._depart(victim, "evicted")
            self.num_evicted += 1

    def clear(self) -> int:
        """Drop everything that is neither leased nor pinned, nor what such chunks build on; return how many chunks that were."""
        return self._drop(list(self._chunks.values()))

    def drop(self, key: Key) -> int:
        """Drop the chunk and what builds on it, as `clear` does; return how many chunks that were."""
        doomed = [chunk for chunk in (self._chunks.get(key),) if chunk is not None]
        for place in doomed:
            doomed += place.children.values()
        return self._drop(doomed[::-1])

    def discard(self, chunk: Chunk[P]) -> None:
        """Drop the chunk and everything that builds on it, leased, pinned or not: it has turned out to be unusable."""
        doomed = [chunk]
        for place in doomed:
            doomed += place.children.values()
        for place in reversed(doomed):
            if self.holds(place):
                self._remove(place)

    def expire(self) -> int:
        """Drop what has outlived its time and return how many chunks that were."""
        now = self._clock()
        if now < self._next_expiry:
            return 0
        # A child never outlives its parent and is always older, so one pass finds every chunk when its children are gone.
        expired = [chunk for chunk in self._chunks.values() if chunk.expires_at <= now]
        num_before = len(self)
        for chunk in expired:
            if _may_go(chunk):
                self._depart(chunk, "expired")
        self._next_expiry = min((chunk.expires_at for chunk in self._chunks.values()), default=math.inf)
        return num_before - len(self)

    def why_gone(self, namespace: bytes, match: Match[P], tokens: Tokens) -> Departure | None:
        """Return why what a prompt would go on with behind the full chunks of its match has left; None when nothing did."""
        start = match.full[-1].end if match.full else 0
        parent = match.full[-1].key if match.full else root_key(namespace)
        children = match.full[-1].children if match.full else self._roots.get(parent, {})
        piece = tokens[start : start + CHUNK_TOKENS].tobytes()
        now = self._clock()
        if any(child.expires_at <= now and begins_alike(child.tokens, piece) for child in children.values()):
            return "expired"
        return self.departures.reason(parent, piece)

    def chunks(self) -> Iterator[Chunk[P]]:
        """All chunks, the least recently used first."""
        return iter(self._chunks.values())

    def check_integrity(self) -> None:
        """Recount everything; an AssertionError is a bug in here."""
        order = {key: place for place, key in enumerate(self._chunks)}
        checkpoints = {id(checkpoint): checkpoint for chunk in self._chunks.values() for checkpoint in chunk.checkpoints}
        payload_bytes = sum(chunk.payload_bytes for chunk in self._chunks.values())
        payloads = [chunk.payload for chunk in self._chunks.values()] + [state.payload for state in checkpoints.values()]
        assert checkpoints == dict(self._states)
        assert self.num_state_bytes == sum(state.num_bytes for state in checkpoints.values())
        assert self.num_bytes == payload_bytes + self.num_state_bytes
        assert self.num_buffers == sum(map(self._buffers_of, payloads))
        for state in checkpoints.values():
            assert all(state in owner.checkpoints for owner in state.owners)
        for chunk in self._chunks.values():
            assert chunk.num_leases >= 0
            assert not chunk.children or chunk.num_tokens == CHUNK_TOKENS
            if chunk.parent is not None:
                assert chunk.parent.children[chunk.key] is chunk
                assert chunk.parent.end == chunk.start
                assert order[chunk.parent.key] > order[chunk.key]
                assert chunk.parent.expires_at >= chunk.expires_at
            assert chunk.expires_at >= self._next_expiry
            assert not chunk.is_pinned or chunk.expires_at == math.inf

    def _with_partial(
        self, path: list[Chunk[P]], children: list[Chunk[P]], piece: memoryview, start: int, salts: Sequence[Salt]
    ) -> Match[P]:
        """The grid ends here; among the children one may agree for some more tokens, but never into or behind an image."""
        salted_from = min((salt.start for salt in salts if salt.end > start), default=start + len(piece) // 4)
        agreeing = []
        for child in children:
            length = min(common_length(memoryview(child.tokens), piece) // 4, max(0, salted_from - start))
            if length:
                agreeing.append((child, start + length))
        return Match(tuple(path), tuple(sorted(agreeing, key=lambda pair: -pair[1])))

    def _inherit(self, children: dict[Key, Chunk[P]], chunk: Chunk[P]) -> None:
        """Share the states of siblings that begin alike, and drop a sibling that says nothing more than the chunk does."""
        for sibling in list(children.values()):
            if sibling is chunk:
                continue
            for checkpoint in sibling.checkpoints:
                if _agree(sibling, chunk, checkpoint.position):
                    self._own(chunk, checkpoint)
            if chunk.tokens.startswith(sibling.tokens) and not sibling.num_leases:
                self._take_over(chunk, sibling)
                self._remove(sibling)

    def _take_over(self, chunk: Chunk[P], sibling: Chunk[P]) -> None:
        """Let the chunk live as long as the sibling that it replaces."""
        chunk.is_pinned = chunk.is_pinned or sibling.is_pinned
        self._live_on(chunk, sibling.expires_at)

    def _expiry(self, ttl_seconds: float | None) -> float:
        return math.inf if ttl_seconds is None else self._clock() + ttl_seconds

    @staticmethod
    def _live_on(chunk: Chunk[P], expires_at: float) -> None:
        # A parent lives at least as long as its children, so the first that lives long enough ends the way up.
        place: Chunk[P] | None = chunk
        while place is not None and place.expires_at < expires_at:
            place.expires_at = expires_at
            place = place.parent

    @staticmethod
    def _own(chunk: Chunk[P], checkpoint: Checkpoint[P]) -> None:
        if not chunk.has_checkpoint_at(checkpoint.position):
            chunk.checkpoints.append(checkpoint)
            checkpoint.owners.append(chunk)

    def _siblings(self, chunk: Chunk[P]) -> dict[Key, Chunk[P]]:
        return chunk.parent.children if chunk.parent is not None else self._roots[root_key(chunk.namespace)]

    def _drop(self, chunks: Sequence[Chunk[P]]) -> int:
        """Drop those that may go, given with every chunk before its parent."""
        num_before = len(self)
        for chunk in chunks:
            if _may_go(chunk):
                self._depart(chunk, "cleared")
        return num_before - len(self)

    def _depart(self, chunk: Chunk[P], reason: Departure) -> None:
        self._remove(chunk)
        parent = chunk.parent.key if chunk.parent is not None else root_key(chunk.namespace)
        self.departures.add(parent, chunk.tokens, reason)

    def _drop_state(self, state: Checkpoint[P]) -> None:
        if self._on_evict is not None:
            self._on_evict(state.owners[0])
        for owner in list(state.owners):
            self.drop_checkpoint(owner, state)

    def _remove(self, chunk: Chunk[P]) -> None:
        for checkpoint in list(chunk.checkpoints):
            self.drop_checkpoint(chunk, checkpoint)
        self.num_bytes -= chunk.payload_bytes
        self.num_buffers -= self._buffers_of(chunk.payload)
        del self._siblings(chunk)[chunk.key]
        del self._chunks[chunk.key]
        if self._on_release is not None:
            self._on_release(chunk.payload)


def _covering(children: dict[Key, Chunk[P]], key: Key, tokens: bytes) -> Chunk[P] | None:
    return children.get(key) or next((child for child in children.values() if child.tokens.startswith(tokens)), None)


def _is_held(chunk: Chunk[P]) -> bool:
    return bool(chunk.num_leases or chunk.is_pinned)


def _may_go(chunk: Chunk[P]) -> bool:
    return not (chunk.children or _is_held(chunk))


def _agree(one: Chunk[P], other: Chunk[P], position: int) -> bool:
    """Whether two siblings have the same tokens up to `position`, which must lie in both."""
    num_bytes = 4 * (position - one.start)
    return len(one.tokens) >= num_bytes <= len(other.tokens) and one.tokens[:num_bytes] == other.tokens[:num_bytes]
