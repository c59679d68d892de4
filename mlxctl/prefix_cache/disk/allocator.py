"""Space for records within byte limit and free disk space.

MLX thread only.
"""

import logging
import shutil
import time
from math import inf
from pathlib import Path

from mlxctl.ir.errors import describe_bytes
from mlxctl.prefix_cache.disk.space import Extent, SegmentSpace
from mlxctl.prefix_cache.disk.stored import StoredRecord
from mlxctl.prefix_cache.disk.writer import RemoveRows, TruncateSegment, Writer
from mlxctl.prefix_cache.entries import Chunk
from mlxctl.prefix_cache.index import PrefixIndex

_WARNING_PAUSE_SECONDS = 600.0

_log = logging.getLogger(__name__)


def max_file_bytes(
    path: Path, space: SegmentSpace, *, max_bytes: int, min_free_bytes: int, num_pending_bytes: int = 0
) -> int:
    """Return the allowed length of all segment files together.

    `num_pending_bytes` of them are not written yet, so the disk still counts them as free. Without the
    directory, which may be deleted while it is in use, they cannot grow.
    """
    try:
        free = shutil.disk_usage(path).free - num_pending_bytes
    except OSError:
        return min(max_bytes, space.num_bytes)
    return min(max_bytes, max(0, space.num_bytes + free - min_free_bytes))


class DiskAllocator:
    """Allocates records in segment files, and evicts for them.

    Freed extents are queued after the writer's earlier jobs.
    """

    def __init__(
        self, path: Path, space: SegmentSpace, writer: Writer, *, max_bytes: int, min_free_bytes: int
    ) -> None:
        self._path = path
        self._space = space
        self._writer = writer
        self._max_bytes = max_bytes
        self._min_free_bytes = min_free_bytes
        self._warned_at = -inf

    def allocate(self, num_bytes: int, index: PrefixIndex[StoredRecord]) -> Extent | None:
        """Return an extent for a record, evicting if needed.

        Evicts the least recently used; None if too large.
        """
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
                self._warn_if_disk_is_full()
                return None
        return extent

    def _warn_if_disk_is_full(self) -> None:
        if (
            self._max_file_bytes() >= self._max_bytes
            or time.monotonic() < self._warned_at + _WARNING_PAUSE_SECONDS
        ):
            return
        self._warned_at = time.monotonic()
        reason = (
            f"the disk has too little free space (engine.cache_min_free_bytes: "
            f"{describe_bytes(self._min_free_bytes)} stay free)"
            if self._path.is_dir()
            else "the directory is gone"
        )
        _log.warning(
            "prefix cache: nothing more is written to %r: %s; prefixes that leave the memory are lost",
            str(self._path),
            reason,
        )

    def enforce_limits(self, index: PrefixIndex[StoredRecord]) -> None:
        """Drop the least recently used segments until the files are short enough.

        Segments with pinned or leased chunks stay.
        """
        index.evict()
        max_bytes = self._max_file_bytes()
        while self._space.num_bytes > max_bytes and (segment := _least_used_segment(index)) is not None:
            _empty_segment(index, segment)

    def release(self, stored: StoredRecord) -> None:
        """Free the extent of a record that has left the index."""
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
    """Return the segment whose newest chunk was used longest ago.

    None if all are protected.
    """
    last_use: dict[int, int] = {}
    protected: set[int] = set()
    for rank, chunk in enumerate(index.chunks()):
        for segment in _segments_of(chunk):
            last_use[segment] = rank
            if _is_protected(chunk):
                protected.add(segment)
    free = {segment: rank for segment, rank in last_use.items() if segment not in protected}
    return min(free, key=free.__getitem__, default=None)


def _empty_segment(index: PrefixIndex[StoredRecord], segment: int) -> None:
    """Drop every record in the segment, with the descendants of its chunks."""
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
    """Whether the chunk or a descendant is pinned or leased."""
    return any(descendant.is_protected for descendant in chunk.with_descendants())
