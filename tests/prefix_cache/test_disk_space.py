"""Byte ranges of segment files: no overlap, freed ranges reused, limits kept."""

from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mlxctl.prefix_cache.disk.space import Extent, SegmentSpace


def test_freed_ranges_are_reused_before_growth() -> None:
    space = SegmentSpace(segment_bytes=100)
    first, second, third = (space.allocate(30, max_growth=1000) for _ in range(3))
    assert [first, second, third] == [Extent(0, 0, 30), Extent(0, 30, 30), Extent(0, 60, 30)]
    assert second is not None

    assert space.free(second) is None
    assert space.allocate(20, max_growth=0) == Extent(0, 30, 20)
    assert space.allocate(30, max_growth=1000) == Extent(1, 0, 30)


def test_free_bytes_at_file_end_are_returned() -> None:
    space = SegmentSpace(segment_bytes=100)
    extents = [space.allocate(30, max_growth=1000) for _ in range(3)]

    assert [space.free(extent) for extent in (extents[1], extents[2], extents[0]) if extent] == [None, 30, 0]
    assert space.sizes == {}


def test_allocation_without_growth_uses_freed_ranges_only() -> None:
    space = SegmentSpace(segment_bytes=100)
    assert space.allocate(30, max_growth=29) is None
    assert space.allocate(300, max_growth=300) == Extent(0, 0, 300)


def test_overlapping_extents_are_rejected_at_load() -> None:
    space = SegmentSpace(segment_bytes=100)

    refused = space.reserve([Extent(3, 10, 20), Extent(3, 25, 10), Extent(3, 40, 5), Extent(3, 50, 0)])

    assert refused == [Extent(3, 25, 10), Extent(3, 50, 0)]
    assert space.sizes == {3: 45}
    assert space.allocate(10, max_growth=0) == Extent(3, 0, 10)
    assert space.allocate(200, max_growth=200) == Extent(4, 0, 200)


class AgainstNaiveModel(RuleBasedStateMachine):
    """Random allocations: extents never overlap, files end with their last record."""

    def __init__(self) -> None:
        super().__init__()
        self.space = SegmentSpace(segment_bytes=200)
        self.taken: list[Extent] = []

    @rule(num_bytes=st.integers(1, 120), max_growth=st.integers(0, 300))
    def allocate(self, num_bytes: int, max_growth: int) -> None:
        before = self.space.num_bytes
        extent = self.space.allocate(num_bytes, max_growth=max_growth)
        if extent is not None:
            self.taken.append(extent)
        assert self.space.num_bytes - before <= max_growth

    @rule(place=st.integers(0, 100))
    def free(self, place: int) -> None:
        if self.taken:
            self.space.free(self.taken.pop(place % len(self.taken)))

    @rule()
    def restart(self) -> None:
        self.space = SegmentSpace(segment_bytes=200)
        assert self.space.reserve(self.taken) == []

    @invariant()
    def nothing_overlaps(self) -> None:
        ordered = sorted(self.taken)
        assert all(
            one.segment != other.segment or one.end <= other.offset for one, other in pairwise(ordered)
        )

    @invariant()
    def files_end_with_their_last_record(self) -> None:
        ends: dict[int, int] = {}
        for extent in self.taken:
            ends[extent.segment] = max(ends.get(extent.segment, 0), extent.end)
        assert self.space.sizes == ends


AgainstNaiveModel.TestCase.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, derandomize=True
)
TestAgainstNaiveModel = AgainstNaiveModel.TestCase
