"""Bodies of the answers of /cache.

Sizes are in bytes, times in unix seconds; unknown values are null.
"""

from msgspec import Struct

from mlxctl.engine import CachedChunk
from mlxctl.inference.cache import Explanation


class ChunkView(Struct, frozen=True, kw_only=True):
    """A cached piece of a prompt.

    `parent` is the key of the chunk before it; `text` needs the model's tokenizer. `num_images` images reach
    into it. `token_ids` are included on request; tokens of an image are negative numbers derived from its
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
    num_images: int
    token_ids: list[int] | None = None

    @classmethod
    def of(
        cls, chunk: CachedChunk, *, num_tokens: int, text: str | None, token_ids: list[int] | None = None
    ) -> "ChunkView":
        """Return the view of a chunk."""
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
            num_images=chunk.num_images,
            token_ids=token_ids,
        )


class ChunkPage(Struct):
    """A page of chunks, least recently used first.

    `next_offset` is null on the last page. `user_markers` is the text that each model's chat template puts
    before and after a user message.
    """

    chunks: list[ChunkView]
    num_chunks: int
    next_offset: int | None
    user_markers: dict[str, tuple[str, str]] = {}


class CacheChanged(Struct):
    """How many chunks changed, and how many there are."""

    num_changed: int
    num_chunks: int


class Explanations(Struct):
    """Explanations of cache hits and misses, newest request first."""

    explanations: list[Explanation]
