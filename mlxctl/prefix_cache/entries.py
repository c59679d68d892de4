"""What the index is made of: chunks of a sequence, states at places in them, and a way through them that fits a prompt. Pure."""

import math
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from mlxctl.prefix_cache.chunks import Key

P = TypeVar("P")


@dataclass(slots=True, eq=False)
class Checkpoint(Generic[P]):
    """The state after the first `position` tokens. Chunks that begin alike share it, as its `owners`; its bytes count once."""

    position: int
    payload: P
    num_bytes: int
    owners: "list[Chunk[P]]" = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Chunk(Generic[P]):
    """A run of at most CHUNK_TOKENS tokens after its parent; `start` is its place in the sequence, `expires_at` in unix seconds."""

    key: Key
    parent: "Chunk[P] | None"
    start: int
    tokens: bytes
    payload: P
    payload_bytes: int
    namespace: bytes
    checkpoints: list[Checkpoint[P]] = field(default_factory=list)
    children: "dict[Key, Chunk[P]]" = field(default_factory=dict)
    num_leases: int = 0
    num_hits: int = 0
    used_at: float = 0.0
    expires_at: float = math.inf
    is_pinned: bool = False

    @property
    def num_tokens(self) -> int:
        """Tokens in the chunk."""
        return len(self.tokens) // 4

    @property
    def end(self) -> int:
        """Position after its last token."""
        return self.start + self.num_tokens

    def has_checkpoint_at(self, position: int) -> bool:
        """Whether a state is kept there."""
        return any(checkpoint.position == position for checkpoint in self.checkpoints)


@dataclass(frozen=True, slots=True)
class Match(Generic[P]):
    """The longest known prefix of a prompt, to the token.

    `full` are the chunks that agree whole, in order; `partial` those of their children that agree for some tokens more, each with
    the position up to which it does, the furthest first.
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
            found = [(checkpoint, path) for checkpoint in path[-1].checkpoints if checkpoint.position <= at_most]
        return max(found, key=lambda pair: pair[0].position, default=None)
