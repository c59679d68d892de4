"""Free and used byte ranges of the segment files. Pure.

A segment grows at its end, and free ranges inside it are used again; free bytes at its end are returned at
once.
"""

from bisect import insort
from dataclasses import dataclass, field

_MAX_SEGMENT_BYTES = 256 * 1024**2
_MIN_SEGMENT_BYTES = 1024**2


def segment_bytes(max_bytes: int) -> int:
    """Return the segment length for a limit of `max_bytes`.

    A sixteenth of it, within bounds. To drop one segment costs a small part of the cache.
    """
    return min(max(max_bytes // 16, _MIN_SEGMENT_BYTES), _MAX_SEGMENT_BYTES)


@dataclass(frozen=True, slots=True, order=True)
class Extent:
    """A byte range of a segment file."""

    segment: int
    offset: int
    num_bytes: int

    @property
    def end(self) -> int:
        """Offset after its last byte."""
        return self.offset + self.num_bytes


@dataclass(slots=True)
class _SegmentRanges:
    """File length, and free ranges as (offset, length), ascending.

    Free ranges never touch each other or the end.
    """

    size: int = 0
    free_ranges: list[tuple[int, int]] = field(default_factory=list)

    def fill(self, num_bytes: int) -> int | None:
        """Use the first free range of sufficient size; return its offset."""
        for index, (offset, length) in enumerate(self.free_ranges):
            if length >= num_bytes:
                rest = [(offset + num_bytes, length - num_bytes)] if length > num_bytes else []
                self.free_ranges[index : index + 1] = rest
                return offset
        return None

    def free(self, offset: int, num_bytes: int) -> None:
        insort(self.free_ranges, (offset, num_bytes))
        merged: list[tuple[int, int]] = []
        for start, length in self.free_ranges:
            if merged and sum(merged[-1]) == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + length)
            else:
                merged.append((start, length))
        if merged and sum(merged[-1]) == self.size:
            self.size = merged.pop()[0]
        self.free_ranges = merged


class SegmentSpace:
    """All segments. A segment grows beyond `segment_bytes` only for its first record."""

    def __init__(self, *, segment_bytes: int) -> None:
        self._segment_bytes = segment_bytes
        self._segments: dict[int, _SegmentRanges] = {}
        self._next_number = 0

    @property
    def num_bytes(self) -> int:
        """Length of all files together."""
        return sum(segment.size for segment in self._segments.values())

    @property
    def sizes(self) -> dict[int, int]:
        """Length of every file, by number."""
        return {number: segment.size for number, segment in self._segments.items()}

    def allocate(self, num_bytes: int, *, max_growth: int) -> Extent | None:
        """Return an extent for a record; None if there is none.

        The files grow by `max_growth` bytes at most.
        """
        for number, segment in self._segments.items():
            offset = segment.fill(num_bytes)
            if offset is not None:
                return Extent(number, offset, num_bytes)
        if num_bytes > max_growth:
            return None
        number = next(
            (
                number
                for number, segment in self._segments.items()
                if segment.size + num_bytes <= self._segment_bytes
            ),
            -1,
        )
        if number < 0:
            number = self._next_number
            self._next_number += 1
            self._segments[number] = _SegmentRanges()
        segment = self._segments[number]
        segment.size += num_bytes
        return Extent(number, segment.size - num_bytes, num_bytes)

    def free(self, extent: Extent) -> int | None:
        """Mark an extent as free.

        Returns the new length of the file if it became shorter; 0 means that the file can be deleted.
        """
        segment = self._segments[extent.segment]
        before = segment.size
        segment.free(extent.offset, extent.num_bytes)
        if not segment.size:
            del self._segments[extent.segment]
        return segment.size if segment.size < before else None

    def reserve(self, extents: list[Extent]) -> list[Extent]:
        """Mark extents of an existing directory as used.

        Returns those that overlap earlier ones.
        """
        overlapping = []
        ends: dict[int, int] = {}
        for extent in sorted(extents):
            end = ends.get(extent.segment, 0)
            if extent.offset < end or extent.num_bytes <= 0:
                overlapping.append(extent)
                continue
            segment = self._segments.setdefault(extent.segment, _SegmentRanges())
            if extent.offset > end:
                segment.free_ranges.append((end, extent.offset - end))
            segment.size = ends[extent.segment] = extent.end
        self._next_number = max(self._segments, default=-1) + 1
        return overlapping
