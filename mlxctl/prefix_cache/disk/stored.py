"""Record on disk, as payload of the disk tier's index."""

from dataclasses import dataclass
from hashlib import sha256

from mlxctl.prefix_cache.chunks import Key, root_key, state_key
from mlxctl.prefix_cache.disk.space import Extent
from mlxctl.prefix_cache.entries import Chunk


@dataclass(slots=True, eq=False, kw_only=True)
class StoredRecord:
    """Extent of a record, and what it must contain.

    The writer sets `digest` and clears `pieces`, the unwritten bytes, once. A record of an earlier run is
    checked at its first read, which sets `is_checked`.
    """

    extent: Extent
    chunk: Key
    position: int | None
    digest: bytes = b""
    pieces: list[bytes] | None = None
    is_checked: bool = False


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
