"""Which prefixes are there, and what may go. Pure; payloads are opaque, and no method interprets one.

A tree of chunks, named by their chain. Every chunk may hold one `kv` payload (for exactly its tokens) and any number of checkpoints
(the state of layers that cannot be cut, at one position). Invariants, recounted by `check_integrity`: a chunk's parent is in the
index as long as the chunk is; a chunk shorter than the full size has no children; `num_bytes` is the sum of all payloads.

Recency is one order over all chunks in which a chunk is always older than its parent, so that the oldest is always a leaf and
eviction is O(1). Owned by one thread.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from mlxctl.prefix_cache.chunks import CHUNK_TOKENS, Key, Salt, Tokens, chunk_key, common_length, root_key

P = TypeVar("P")


@dataclass(slots=True)
class Checkpoint(Generic[P]):
    """The state after the first `position` tokens."""

    position: int
    payload: P
    num_bytes: int


@dataclass(slots=True, eq=False)
class Chunk(Generic[P]):
    """A run of at most CHUNK_TOKENS tokens after its parent; `start` is its place in the sequence."""

    key: Key
    parent: "Chunk[P] | None"
    start: int
    tokens: bytes
    payload: P
    payload_bytes: int
    checkpoints: list[Checkpoint[P]] = field(default_factory=list)
    children: "dict[Key, Chunk[P]]" = field(default_factory=dict)
    num_leases: int = 0
    num_hits: int = 0

    @property
    def num_tokens(self) -> int:
        """Tokens in the chunk."""
        return len(self.tokens) // 4

    @property
    def end(self) -> int:
        """Position after its last token."""
        return self.start + self.num_tokens

    @property
    def num_bytes(self) -> int:
        """What it holds."""
        return self.payload_bytes + sum(checkpoint.num_bytes for checkpoint in self.checkpoints)


@dataclass(frozen=True, slots=True)
class Match(Generic[P]):
    """The longest known prefix of a prompt: its chunks in order, and its length to the token."""

    chunks: "tuple[Chunk[P], ...]"
    num_tokens: int

    def checkpoint(self, *, at_most: int) -> "Checkpoint[P] | None":
        """Return the last checkpoint within the match that leaves the prompt's token `at_most` to be run."""
        limit = min(at_most, self.num_tokens)
        for chunk in reversed(self.chunks):
            fitting = [checkpoint for checkpoint in chunk.checkpoints if checkpoint.position <= limit]
            if fitting:
                return max(fitting, key=lambda checkpoint: checkpoint.position)
        return None


class PrefixIndex(Generic[P]):
    """All prefixes of all namespaces within one budget."""

    def __init__(self, *, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self.num_evicted = 0
        self._chunks: OrderedDict[Key, Chunk[P]] = OrderedDict()
        self._roots: dict[Key, dict[Key, Chunk[P]]] = {}

    def __len__(self) -> int:
        return len(self._chunks)

    def match(self, namespace: bytes, tokens: Tokens, salts: Sequence[Salt] = ()) -> Match[P]:
        """Return the longest prefix of `tokens` that is known. Touches nothing: a look is no use."""
        key = root_key(namespace)
        children = self._roots.get(key, {})
        view = memoryview(tokens).cast("B")
        path: list[Chunk[P]] = []
        start = 0
        while start < len(tokens):
            piece = view[4 * start : 4 * (start + CHUNK_TOKENS)]
            key = chunk_key(key, piece.tobytes(), salts, start=start)
            chunk = children.get(key)
            if chunk is None:
                return self._with_partial(path, children, piece, start, salts)
            path.append(chunk)
            children = chunk.children
            start += CHUNK_TOKENS
        return Match(tuple(path), min(len(tokens), path[-1].end if path else 0))

    def publish(
        self, namespace: bytes, parent: "Chunk[P] | None", tokens: bytes, payload: P, num_bytes: int, salts: Sequence[Salt] = ()
    ) -> "Chunk[P] | None":
        """Add a chunk of packed `tokens` after `parent` (None: at the beginning), which must be a full chunk that is still there.

        Returns the chunk, or the one that was there already and begins with the same tokens; None when its parent is gone or the
        budget is too small.
        """
        if parent is not None and not self.holds(parent):
            return None
        start = parent.end if parent is not None else 0
        assert start % CHUNK_TOKENS == 0, "chunks lie on a grid"
        root = root_key(namespace)
        children = parent.children if parent is not None else self._roots.setdefault(root, {})
        key = chunk_key(parent.key if parent is not None else root, tokens, salts, start=start)
        existing = children.get(key) or next((child for child in children.values() if child.tokens.startswith(tokens)), None)
        if existing is not None:
            return existing
        chunk = Chunk(key, parent, start, tokens, payload, num_bytes)
        children[key] = chunk
        self._chunks[key] = chunk
        self.num_bytes += num_bytes
        self._drop_covered(children, chunk)
        self.touch(self._path(chunk))
        self.evict()
        return chunk if key in self._chunks else None

    def holds(self, chunk: "Chunk[P]") -> bool:
        """Whether the chunk is still in the index."""
        return self._chunks.get(chunk.key) is chunk

    def add_checkpoint(self, chunk: Chunk[P], checkpoint: Checkpoint[P]) -> None:
        """Keep a state in the chunk that covers its position (start < position <= end); one that is there already stays."""
        assert chunk.start < checkpoint.position <= chunk.end, "a checkpoint lies in its chunk"
        if any(known.position == checkpoint.position for known in chunk.checkpoints):
            return
        chunk.checkpoints.append(checkpoint)
        self.num_bytes += checkpoint.num_bytes
        self.evict()

    def drop_checkpoint(self, chunk: Chunk[P], checkpoint: Checkpoint[P]) -> None:
        """Forget a state."""
        chunk.checkpoints.remove(checkpoint)
        self.num_bytes -= checkpoint.num_bytes

    def touch(self, path: Sequence[Chunk[P]]) -> None:
        """Make these chunks, a path from the root, the most recently used, each newer than its children."""
        for chunk in reversed(path):
            self._chunks.move_to_end(chunk.key)

    def lease(self, match: Match[P]) -> None:
        """Keep the chunks of the match from eviction until `release`; does not change recency."""
        for chunk in match.chunks:
            chunk.num_leases += 1

    def release(self, match: Match[P]) -> None:
        """End a lease."""
        for chunk in match.chunks:
            chunk.num_leases -= 1

    def evict(self) -> None:
        """Drop the oldest leaves that are not leased until the budget holds."""
        self.shrink(self.max_bytes)

    def shrink(self, max_bytes: int) -> None:
        """Drop the oldest leaves that are not leased until no more than `max_bytes` are held."""
        while self.num_bytes > max_bytes:
            victim = next((chunk for chunk in self._chunks.values() if not chunk.children and not chunk.num_leases), None)
            if victim is None:
                return
            self._remove(victim)
            self.num_evicted += 1

    def clear(self, namespace: bytes | None = None) -> None:
        """Drop everything that is not leased, of one namespace or of all."""
        kept = self._roots if namespace is None else {root_key(namespace): self._roots.get(root_key(namespace), {})}
        roots = {id(chunk) for children in kept.values() for chunk in children.values()}
        for chunk in list(self._chunks.values()):
            if not chunk.children and not chunk.num_leases and id(self._path(chunk)[0]) in roots:
                self._remove(chunk)

    def chunks(self) -> Iterator[Chunk[P]]:
        """All chunks, the least recently used first."""
        return iter(self._chunks.values())

    def check_integrity(self) -> None:
        """Recount everything; an AssertionError is a bug in here."""
        order = {key: place for place, key in enumerate(self._chunks)}
        assert self.num_bytes == sum(chunk.num_bytes for chunk in self._chunks.values())
        for chunk in self._chunks.values():
            assert chunk.num_leases >= 0
            assert not chunk.children or chunk.num_tokens == CHUNK_TOKENS
            if chunk.parent is not None:
                assert chunk.parent.children[chunk.key] is chunk
                assert chunk.parent.end == chunk.start
                assert order[chunk.parent.key] > order[chunk.key]

    def _with_partial(
        self, path: list[Chunk[P]], children: dict[Key, Chunk[P]], piece: memoryview, start: int, salts: Sequence[Salt]
    ) -> Match[P]:
        """The grid ends here; among the children one may agree for some more tokens, but never into or behind an image."""
        salted_from = min((salt.start for salt in salts if salt.end > start), default=None)
        best: Chunk[P] | None = None
        best_length = 0
        for child in children.values():
            length = common_length(memoryview(child.tokens), piece) // 4
            if salted_from is not None:
                length = min(length, max(0, salted_from - start))
            if length > best_length:
                best, best_length = child, length
        if best is None:
            return Match(tuple(path), start)
        return Match((*path, best), start + best_length)

    def _drop_covered(self, children: dict[Key, Chunk[P]], chunk: Chunk[P]) -> None:
        """A shorter sibling whose tokens the new chunk begins with says nothing more; its checkpoints move over."""
        for sibling in list(children.values()):
            is_covered = (
                sibling is not chunk and len(sibling.tokens) < len(chunk.tokens) and chunk.tokens.startswith(sibling.tokens)
            )
            if is_covered and not sibling.num_leases:
                moved, sibling.checkpoints = sibling.checkpoints, []
                chunk.checkpoints += moved
                self._remove_from_tree(sibling)
                self.num_bytes -= sibling.payload_bytes

    def _remove(self, chunk: Chunk[P]) -> None:
        self.num_bytes -= chunk.num_bytes
        self._remove_from_tree(chunk)

    def _remove_from_tree(self, chunk: Chunk[P]) -> None:
        del self._chunks[chunk.key]
        if chunk.parent is not None:
            del chunk.parent.children[chunk.key]
            return
        for children in self._roots.values():
            if children.get(chunk.key) is chunk:
                del children[chunk.key]
                return

    @staticmethod
    def _path(chunk: Chunk[P]) -> list[Chunk[P]]:
        path = [chunk]
        while path[-1].parent is not None:
            path.append(path[-1].parent)
        return path[::-1]
