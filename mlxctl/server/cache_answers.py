"""What /cache answers, as types. Sizes are in bytes, times in unix seconds; what is not known is null."""

from msgspec import Struct

from mlxctl.engine import CachedChunk
from mlxctl.inference.cache import Explanation


class ChunkView(Struct, frozen=True, kw_only=True):
    """A piece of a prompt that was computed.

    `parent` is the key of the one before it; `text` needs its model's tokenizer.

    `token_ids` are there when they were asked for; tokens of an image are negative numbers made of its
    digest.
    """

    key: str
    parent: str | None
    model: str | None
    namespace: str
    start: int
    num_tokens: int
    text: str | None
    memory_bytes: int
    disk_bytes: int
    checkpoints: list[int]
    num_hits: int
    used_at: float | None
    expires_at: float | None
    is_pinned: bool
    is_in_use: bool
    token_ids: list[int] | None = None

    @classmethod
    def of(
        cls, chunk: CachedChunk, *, num_tokens: int, text: str | None, token_ids: list[int] | None = None
    ) -> "ChunkView":
        """Return what is told of a chunk."""
        return cls(
            key=chunk.key.hex(),
            parent=chunk.parent.hex() or None,
            model=chunk.model or None,
            namespace=chunk.namespace.hex(),
            start=chunk.start,
            num_tokens=num_tokens,
            text=text,
            memory_bytes=chunk.memory_bytes,
            disk_bytes=chunk.disk_bytes,
            checkpoints=chunk.checkpoints,
            num_hits=chunk.num_hits,
            used_at=chunk.used_at or None,
            expires_at=chunk.expires_at,
            is_pinned=chunk.is_pinned,
            is_in_use=chunk.num_leases > 0,
            token_ids=token_ids,
        )


class ChunkPage(Struct):
    """A page of chunks, the least recently used first; `next_offset` is null on the last.

    `user_markers` is what the chat template of each model on the page writes before and behind a user's
    message.
    """

    chunks: list[ChunkView]
    num_chunks: int
    next_offset: int | None
    user_markers: dict[str, tuple[str, str]] = {}


class CacheChanged(Struct):
    """How many chunks were changed, and how many there are now."""

    num_changed: int
    num_chunks: int


class Explanations(Struct):
    """How much of some requests was known, and why not more, the newest first."""

    explanations: list[Explanation]
