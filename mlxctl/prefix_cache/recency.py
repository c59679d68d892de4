"""The order of use: chunks from the least to the most recently used, as a list through the chunks themselves.

Pure.

Linked by hand, because an OrderedDict takes more memory for a chunk than all else that the index keeps of it
but its tokens.
"""

from collections.abc import Iterator
from typing import Generic

from mlxctl.prefix_cache.entries import Chunk, P


class ChunkOrder(Generic[P]):
    """Chunks, each in here at most once."""

    def __init__(self) -> None:
        self._oldest: Chunk[P] | None = None
        self._newest: Chunk[P] | None = None

    def __iter__(self) -> "Iterator[Chunk[P]]":
        """All, the least recently used first.

        The chunk that was given last may be removed meanwhile, no other.
        """
        place = self._oldest
        while place is not None:
            following = place.newer
            yield place
            place = following

    def add(self, chunk: "Chunk[P]") -> None:
        """Add a chunk that is not in here, as the most recently used."""
        chunk.older, chunk.newer = self._newest, None
        if self._newest is not None:
            self._newest.newer = chunk
        else:
            self._oldest = chunk
        self._newest = chunk

    def remove(self, chunk: "Chunk[P]") -> None:
        """Take out a chunk that is in here."""
        if chunk.older is not None:
            chunk.older.newer = chunk.newer
        else:
            self._oldest = chunk.newer
        if chunk.newer is not None:
            chunk.newer.older = chunk.older
        else:
            self._newest = chunk.older
        chunk.older = chunk.newer = None

    def touch(self, chunk: "Chunk[P]") -> None:
        """Make a chunk that is in here the most recently used."""
        self.remove(chunk)
        self.add(chunk)
