"""What the index is made of: chunks of a sequence, states at places in them, and a way through them that fits
a prompt. Pure.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from mlxctl.ir.tokens import Salt, overlapping
from mlxctl.prefix_cache.chunks import ID_BYTES, Key, from_24_bit

P = TypeVar("P")


@dataclass(slots=True, eq=False)
class Checkpoint(Generic[P]):
    """The state after the first `position` tokens.

    Chunks that begin alike share it, as its `owners`; its bytes count once.
    """

    position: int
    payload: P
    num_bytes: int
    owners: "list[Chunk[P]]" = field(default_factory=list)


@dataclass(slots=True, eq=False)
class SharedSegment(Generic[P]):
    """What chunks have in common that begin alike and part later: the payload of `num_tokens` tokens, whose
    bytes count once.
    """

    num_tokens: int
    payload: P
    num_bytes: int
    owners: "list[Chunk[P]]"


@dataclass(slots=True, eq=False)
class Chunk(Generic[P]):
    """A run of at most CHUNK_TOKENS tokens after its parent; `start` is its place in the sequence,
    `expires_at` in unix seconds.

    `salts` are those of the images that reach into it. `stems` hold the payload of its first tokens, in
    order, where others begin alike; `payload` is for the rest. There are many chunks, and what they take
    beside their payload counts: `ids` are the tokens in three bytes each, `children` is None for a leaf, and
    `older` and `newer` are its neighbors in the order of use.
    """

    key: Key
    parent: "Chunk[P] | None"
    start: int
    ids: bytes
    payload: P
    payload_bytes: int
    namespace: bytes
    salts: tuple[Salt, ...] = ()
    shared_segments: "tuple[SharedSegment[P], ...]" = ()
    checkpoints: "tuple[Checkpoint[P], ...]" = ()
    children: "dict[Key, Chunk[P]] | None" = None
    num_leases: int = 0
    num_hits: int = 0
    used_at: float = 0.0
    expires_at: float = math.inf
    is_pinned: bool = False
    older: "Chunk[P] | None" = None
    newer: "Chunk[P] | None" = None

    @property
    def num_tokens(self) -> int:
        """Tokens in the chunk."""
        return len(self.ids) // ID_BYTES

    @property
    def end(self) -> int:
        """Position after its last token."""
        return self.start + self.num_tokens

    @property
    def tokens(self) -> bytes:
        """Its tokens, as packed uint32."""
        return from_24_bit(self.ids)

    @property
    def num_shared_tokens(self) -> int:
        """How many of its tokens stems hold."""
        return sum(shared_segment.num_tokens for shared_segment in self.shared_segments)

    @property
    def is_protected(self) -> bool:
        """Whether nothing in it may go for want of room."""
        return bool(self.num_leases or self.is_pinned)

    @property
    def is_evictable(self) -> bool:
        """Whether nothing builds on it, and nobody holds it."""
        return not (self.children or self.is_protected)

    def with_descendants(self) -> "list[Chunk[P]]":
        """It and all that builds on it, every chunk behind its parent."""
        found = [self]
        for place in found:
            found += (place.children or {}).values()
        return found

    def payloads(self) -> Iterator[tuple[int, P]]:
        """Its payloads in order, each with the position of its first token."""
        place = self.start
        for shared_segment in self.shared_segments:
            yield place, shared_segment.payload
            place += shared_segment.num_tokens
        yield place, self.payload

    def starts_with(self, ids: bytes, salts: Sequence[Salt]) -> bool:
        """Whether it says the same as a chunk of these ids, at the same place, and perhaps more."""
        end = self.start + len(ids) // ID_BYTES
        return self.ids.startswith(ids) and overlapping(self.salts, self.start, end) == overlapping(
            salts, self.start, end
        )

    def has_checkpoint_at(self, position: int) -> bool:
        """Whether a state is kept there."""
        return any(checkpoint.position == position for checkpoint in self.checkpoints)


@dataclass(frozen=True, slots=True)
class PrefixMatch(Generic[P]):
    """The longest known prefix of a prompt, to the token.

    `full` are the chunks that agree whole, in order; `partial` those of their children that agree for some
    tokens more, each with the position up to which it does, the furthest first.
    """

    full: "tuple[Chunk[P], ...]"
    partial: "tuple[tuple[Chunk[P], int], ...]" = ()

    @property
    def num_tokens(self) -> int:
        """Its length."""
        if self.partial:
            return self.partial[0][1]
        return self.full[-1].end if self.full else 0

    @property
    def chunks(self) -> "tuple[Chunk[P], ...]":
        """The path to its end."""
        return (*self.full, self.partial[0][0]) if self.partial else self.full

    def checkpoint(self, *, at_most: int) -> "tuple[Checkpoint[P], tuple[Chunk[P], ...]] | None":
        """Return the last checkpoint in it up to position `at_most`, and the path of chunks to it."""
        found = [
            (checkpoint, (*self.full, chunk))
            for chunk, end in self.partial
            for checkpoint in chunk.checkpoints
            if checkpoint.position <= min(at_most, end)
        ]
        for place in range(len(self.full) - 1, -1, -1):
            if found:
                break
            path = self.full[: place + 1]
            found = [
                (checkpoint, path) for checkpoint in path[-1].checkpoints if checkpoint.position <= at_most
            ]
        return max(found, key=lambda pair: pair[0].position, default=None)
