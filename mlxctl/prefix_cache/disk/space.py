"""Where in the segment files there is room. Pure; knows no files.

A segment grows at its end and is filled again where records have gone; what is free at its end is given back
at once.
"""

from bisect import insort
from dataclasses import dataclass, field

_MAX_SEGMENT_BYTES = 256 * 1024**2
_MIN_SEGMENT_BYTES = 1024**2


def segment_bytes(max_bytes: int) -> int:
    """Return how long a segment may become where all may become `max_bytes`: to give up one is to give up a
    small part.
    """
    return min(max(max_bytes // 16, _MIN_SEGMENT_BYTES), _MAX_SEGMENT_BYTES)


@dataclass(frozen=True, slots=True, order=True)
class Extent:
    """A run of bytes in a segment file."""

    segment: int
    offset: int
    num_bytes: int

    @property
    def end(self) -> int:
        """Offset after its last byte."""
        return self.offset + self.num_bytes


@dataclass(slots=True)
class _SegmentRanges:
    """How long the file is, and the holes in it as (offset, length), ascending, never touching each other or
    the end.
    """

    size: int = 0
    holes: list[tuple[int, int]] = field(default_factory=list)

    def fill(self, num_bytes: int) -> int | None:
        """Take the first hole that is large enough and return its offset."""
        for place, (offset, length) in enumerate(self.holes):
            if length >= num_bytes:
                rest = [(offset + num_bytes, length - num_bytes)] if length > num_bytes else []
                self.holes[place : place + 1] = rest
                return offset
        return None

    def free(self, offset: int, num_bytes: int) -> None:
        insort(self.holes, (offset, num_bytes))
        merged: list[tuple[int, int]] = []
        for start, length in self.holes:
            if merged and sum(merged[-1]) == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + length)
            else:
                merged.append((start, length))
        if merged and sum(merged[-1]) == self.size:
            self.size = merged.pop()[0]
        self.holes = merged


class SegmentSpace:
    """All segments. A segment takes no new record beyond `segment_bytes`, unless the record is its first."""

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
        """Return room for a record, letting the files grow by `max_growth` bytes at most; None when there is
        none.
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
        """Give room back.

        Returns the new length of the file if it became shorter; 0 means that the file is not needed any more.
        """
        segment = self._segments[extent.segment]
        before = segment.size
        segment.free(extent.offset, extent.num_bytes)
        if not segment.size:
            del self._segments[extent.segment]
        return segment.size if segment.size < before else None

    def reserve(self, extents: list[Extent]) -> list[Extent]:
        """Begin with these extents taken; return those that cannot be, because they overlap one before them."""
        refused = []
        ends: dict[int, int] = {}
        for extent in sorted(extents):
            end = ends.get(extent.segment, 0)
            if extent.offset < end or extent.num_bytes <= 0:
                refused.append(extent)
                continue
            segment = self._segments.setdefault(extent.segment, _SegmentRanges())
            if extent.offset > end:
                segment.holes.append((end, extent.offset - end))
            segment.size = ends[extent.segment] = extent.end
        self._next_number = max(self._segments, default=-1) + 1
        return refused
