"""Entries of the prefix index: chunks, checkpoints, shared segments, matches. Pure."""

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Generic, TypeVar

from mlxctl.ir.tokens import ANONYMOUS, Salt, overlapping
from mlxctl.prefix_cache.chunks import ID_BYTES, Key, from_24_bit
from mlxctl.prefix_cache.siblings import Siblings

P = TypeVar("P")
V = TypeVar("V", bound=Hashable)


@lru_cache(maxsize=1024)
def shared(value: V) -> V:
    """Return an equal value of an earlier chunk.

    Each request brings its caller's salt anew.
    """
    return value


@dataclass(slots=True, eq=False)
class Checkpoint(Generic[P]):
    """State of the layers that cannot be cut, after `position` tokens.

    Sibling chunks with the same tokens up to there share it as its `owners`; its bytes count once.
    """

    position: int
    payload: P
    num_bytes: int
    owners: "list[Chunk[P]]" = field(default_factory=list)


@dataclass(slots=True, eq=False)
class SharedSegment(Generic[P]):
    """Payload of leading tokens that several sibling chunks share.

    Its bytes count once.
    """

    num_tokens: int
    payload: P
    num_bytes: int
    owners: "list[Chunk[P]]"


@dataclass(slots=True, eq=False)
class Chunk(Generic[P]):
    """At most CHUNK_TOKENS consecutive tokens of a prompt, after a parent chunk.

    `start` is the position of its first token, `expires_at` is in unix seconds, `salts` are those that cover
    one of its tokens, `caller` is the digest of its caller. `shared_segments` hold the payload of its first
    tokens, in order; `payload` is that of the rest. Memory per chunk matters, since there are many: `ids` are
    the tokens in three bytes each, `children` is None for a leaf, and `older` and `newer` link the order of
    use.
    """

    key: Key
    parent: "Chunk[P] | None"
    start: int
    ids: bytes
    payload: P
    payload_bytes: int
    namespace: bytes
    caller: bytes = ANONYMOUS
    salts: tuple[Salt, ...] = ()
    shared_segments: "tuple[SharedSegment[P], ...]" = ()
    checkpoints: "tuple[Checkpoint[P], ...]" = ()
    children: "Siblings[Chunk[P]] | None" = None
    num_leases: int = 0
    num_hits: int = 0
    used_at: float = 0.0
    expires_at: float = math.inf
    is_pinned: bool = False
    older: "Chunk[P] | None" = None
    newer: "Chunk[P] | None" = None

    @property
    def num_tokens(self) -> int:
        """Number of tokens in the chunk."""
        return len(self.ids) // ID_BYTES

    @property
    def end(self) -> int:
        """Position after the last token."""
        return self.start + self.num_tokens

    @property
    def tokens(self) -> bytes:
        """Token ids as packed uint32."""
        return from_24_bit(self.ids)

    @property
    def num_shared_tokens(self) -> int:
        """Number of leading tokens whose payload is in shared segments."""
        return sum(segment.num_tokens for segment in self.shared_segments)

    @property
    def num_bytes(self) -> int:
        """Bytes of the chunk; shared ones count for their first owner."""
        segments = sum(segment.num_bytes for segment in self.shared_segments if segment.owners[0] is self)
        states = sum(state.num_bytes for state in self.checkpoints if state.owners[0] is self)
        return self.payload_bytes + segments + states

    @property
    def is_protected(self) -> bool:
        """Whether a lease or a pin forbids eviction."""
        return bool(self.num_leases or self.is_pinned)

    @property
    def is_evictable(self) -> bool:
        """Whether it is a leaf without lease or pin."""
        return not (self.children or self.is_protected)

    def ancestors(self) -> "Iterator[Chunk[P]]":
        """Yield the chunk, its parent, and so on to the first chunk."""
        chunk: Chunk[P] | None = self
        while chunk is not None:
            yield chunk
            chunk = chunk.parent

    def path(self) -> "list[Chunk[P]]":
        """Return the chunks from the first of the prompt to this one."""
        return list(self.ancestors())[::-1]

    def with_descendants(self) -> "list[Chunk[P]]":
        """Return the chunk and its descendants, parents before children."""
        chunks = [self]
        for chunk in chunks:
            chunks += chunk.children or ()
        return chunks

    def payloads(self) -> Iterator[tuple[int, P]]:
        """Yield the payloads in order, each with its first position."""
        position = self.start
        for segment in self.shared_segments:
            yield position, segment.payload
            position += segment.num_tokens
        yield position, self.payload

    def starts_with(self, ids: bytes, salts: Sequence[Salt]) -> bool:
        """Whether the chunk has these leading ids, under the same salts."""
        end = self.start + len(ids) // ID_BYTES
        return self.ids.startswith(ids) and overlapping(self.salts, self.start, end) == overlapping(
            salts, self.start, end
        )

    def agrees_with(self, sibling: "Chunk[P]", position: int) -> bool:
        """Whether both chunks have the same tokens and salts up to `position`."""
        ids = self.ids[: ID_BYTES * (position - self.start)]
        return (
            self.end >= position <= sibling.end
            and self.starts_with(ids, sibling.salts)
            and sibling.starts_with(ids, self.salts)
        )

    def has_checkpoint_at(self, position: int) -> bool:
        """Whether there is a checkpoint at this position."""
        return any(checkpoint.position == position for checkpoint in self.checkpoints)


@dataclass(frozen=True, slots=True)
class PrefixMatch(Generic[P]):
    """Longest prefix of a prompt that is in the index.

    `full` are the chunks that match whole, in order; `partial` are children of the last one that match for
    some more tokens, each with the position up to which it does, the longest first.
    """

    full: "tuple[Chunk[P], ...]"
    partial: "tuple[tuple[Chunk[P], int], ...]" = ()

    @property
    def num_tokens(self) -> int:
        """Length of the match in tokens."""
        if self.partial:
            return self.partial[0][1]
        return self.full[-1].end if self.full else 0

    @property
    def chunks(self) -> "tuple[Chunk[P], ...]":
        """Chunks of the longest match, in order."""
        return (*self.full, self.partial[0][0]) if self.partial else self.full

    def checkpoint(self, *, at_most: int) -> "tuple[Checkpoint[P], tuple[Chunk[P], ...]] | None":
        """Return the last checkpoint up to `at_most`, with its path."""
        candidates = [
            (checkpoint, (*self.full, chunk))
            for chunk, end in self.partial
            for checkpoint in chunk.checkpoints
            if checkpoint.position <= min(at_most, end)
        ]
        for index in range(len(self.full) - 1, -1, -1):
            if candidates:
                break
            path = self.full[: index + 1]
            candidates = [
                (checkpoint, path) for checkpoint in path[-1].checkpoints if checkpoint.position <= at_most
            ]
        return max(candidates, key=lambda pair: pair[0].position, default=None)
