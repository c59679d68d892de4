"""The room that records may take: by the limit that was set, and by what must stay free on the disk.

MLX thread only.
"""

import shutil
from pathlib import Path

from mlxctl.prefix_cache.disk.space import Extent, SegmentSpace
from mlxctl.prefix_cache.disk.stored import StoredRecord
from mlxctl.prefix_cache.disk.writer import RemoveRows, TruncateSegment, Writer
from mlxctl.prefix_cache.entries import Chunk
from mlxctl.prefix_cache.index import PrefixIndex


def max_file_bytes(
    path: Path, space: SegmentSpace, *, max_bytes: int, min_free_bytes: int, num_pending_bytes: int = 0
) -> int:
    """Return how long all files together may be, when so many bytes of them are not written yet."""
    free = shutil.disk_usage(path).free - num_pending_bytes
    return min(max_bytes, max(0, space.num_bytes + free - min_free_bytes))


class DiskAllocator:
    """Gives records their places in the files of a directory, and takes them back in the order in which the
    writer works.
    """

    def __init__(
        self, path: Path, space: SegmentSpace, writer: Writer, *, max_bytes: int, min_free_bytes: int
    ) -> None:
        self._path = path
        self._space = space
        self._writer = writer
        self._max_bytes = max_bytes
        self._min_free_bytes = min_free_bytes

    def allocate(self, num_bytes: int, index: PrefixIndex[StoredRecord]) -> Extent | None:
        """Return a place for a record; what was used longest ago makes way. None when that is not enough."""
        if num_bytes > self._max_bytes:
            return None
        while (
            extent := self._space.allocate(
                num_bytes, max_growth=max(0, self._max_file_bytes() - self._space.num_bytes)
            )
        ) is None:
            num_before = len(index)
            index.shrink(index.num_bytes - 1)
            if len(index) == num_before:
                return None
        return extent

    def enforce_limits(self, index: PrefixIndex[StoredRecord]) -> None:
        """Empty the segments that were used longest ago until the files are short enough; nothing pinned or
        leased goes.
        """
        index.evict()
        most = self._max_file_bytes()
        while self._space.num_bytes > most and (segment := _least_used_segment(index)) is not None:
            _empty_segment(index, segment)

    def release(self, stored: StoredRecord) -> None:
        """Take back the place of a record that has left the index."""
        self._writer.put(RemoveRows((stored.extent,)))
        size = self._space.free(stored.extent)
        if size is not None:
            self._writer.put(TruncateSegment(stored.extent.segment, size))

    def _max_file_bytes(self) -> int:
        return max_file_bytes(
            self._path,
            self._space,
            max_bytes=self._max_bytes,
            min_free_bytes=self._min_free_bytes,
            num_pending_bytes=self._writer.num_pending_bytes,
        )


def _least_used_segment(index: PrefixIndex[StoredRecord]) -> int | None:
    """Return the segment whose most recently used chunk was used longest ago, if it holds nothing pinned or
    leased.
    """
    last_use: dict[int, int] = {}
    kept: set[int] = set()
    for place, chunk in enumerate(index.chunks()):
        for segment in _segments_of(chunk):
            last_use[segment] = place
            if _is_protected(chunk):
                kept.add(segment)
    free = {segment: place for segment, place in last_use.items() if segment not in kept}
    return min(free, key=free.__getitem__, default=None)


def _empty_segment(index: PrefixIndex[StoredRecord], segment: int) -> None:
    """Drop every record in the segment, and what builds on it."""
    for chunk in list(index.chunks()):
        if not index.contains(chunk):
            continue
        if chunk.payload.extent.segment == segment:
            index.discard(chunk)
            continue
        for state in [state for state in chunk.checkpoints if state.payload.extent.segment == segment]:
            index.drop_checkpoint(chunk, state)


def _segments_of(chunk: Chunk[StoredRecord]) -> set[int]:
    return {chunk.payload.extent.segment, *(state.payload.extent.segment for state in chunk.checkpoints)}


def _is_protected(chunk: Chunk[StoredRecord]) -> bool:
    """Whether the chunk, or one that builds on it, is pinned or leased."""
    return any(place.is_protected for place in chunk.with_descendants())
