"""Record on disk, as payload of the disk tier's index."""

from hashlib import sha256

from mlxctl.prefix_cache.chunks import Key, root_key, state_key
from mlxctl.prefix_cache.disk.space import Extent
from mlxctl.prefix_cache.entries import Chunk


class StoredRecord:
    """Extent of a record, and what it must contain.

    The writer sets `digest` and clears `pieces`, the unwritten bytes, once. A record of an earlier run is
    checked at its first read, which sets `is_checked`. Memory per record matters, since there are many: the
    extent is kept as numbers.
    """

    __slots__ = ("_num_bytes", "_offset", "_segment", "chunk", "digest", "is_checked", "pieces", "position")

    def __init__(
        self,
        *,
        extent: Extent,
        chunk: Key,
        position: int | None,
        digest: bytes = b"",
        pieces: list[bytes] | None = None,
    ) -> None:
        self._segment, self._offset, self._num_bytes = extent.segment, extent.offset, extent.num_bytes
        self.chunk = chunk
        self.position = position
        self.digest = digest
        self.pieces = pieces
        self.is_checked = False

    @property
    def extent(self) -> Extent:
        """Where the record lies."""
        return Extent(self._segment, self._offset, self._num_bytes)

    @property
    def num_bytes(self) -> int:
        """Length of the record."""
        return self._num_bytes


def name_in_header(chunk: Chunk[StoredRecord], position: int | None) -> Key:
    """Return the header's `chunk` field of a chunk's record or state."""
    if position is None:
        return chunk.key
    parent = chunk.parent.key if chunk.parent is not None else root_key(chunk.namespace)
    return state_key(parent, chunk.tokens, position - chunk.start, chunk.salts, start=chunk.start)


def digest_of(pieces: list[bytes]) -> bytes:
    """Return the SHA-256 over the pieces; CPUs have instructions for it."""
    digest = sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.digest()
