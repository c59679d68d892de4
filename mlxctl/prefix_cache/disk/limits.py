"""Which segments go when the files must become shorter. Pure; knows no files."""

from mlxctl.prefix_cache.disk.stored import StoredRecord
from mlxctl.prefix_cache.entries import Chunk
from mlxctl.prefix_cache.index import PrefixIndex


def least_used_segment(index: PrefixIndex[StoredRecord]) -> int | None:
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


def empty_segment(index: PrefixIndex[StoredRecord], segment: int) -> None:
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
