"""A record on disk, as the index of the disk holds it."""

from dataclasses import dataclass
from hashlib import sha256

from mlxctl.prefix_cache.chunks import Key, root_key, state_key
from mlxctl.prefix_cache.disk.space import Extent
from mlxctl.prefix_cache.entries import Chunk


@dataclass(slots=True, eq=False, kw_only=True)
class StoredRecord:
    """Where a record lies and what it must hold.

    `pieces` are its bytes until they are written, `digest` is known from then on: the writer sets both, once.
    What was found from an earlier run is checked when it is read first, and `is_checked` from then on.
    """

    extent: Extent
    chunk: Key
    position: int | None
    digest: bytes = b""
    pieces: list[bytes] | None = None
    is_checked: bool = False


def name_in_header(chunk: Chunk[StoredRecord], position: int | None) -> Key:
    """Return what the record of a chunk, or of the state at a position in it, says that it is of."""
    if position is None:
        return chunk.key
    parent = chunk.parent.key if chunk.parent is not None else root_key(chunk.namespace)
    return state_key(parent, chunk.tokens, position - chunk.start, chunk.salts, start=chunk.start)


def digest_of(pieces: list[bytes]) -> bytes:
    """Return SHA-256 over the pieces: the fastest of the strong ones where processors have it built in."""
    digest = sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.digest()
