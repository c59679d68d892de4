"""Token ids of one model's answers, for workers that lack them.

Bounded. Event-loop thread only.
"""

from collections import deque
from collections.abc import Iterable
from itertools import islice

from mlxctl.adapters.tokens.encoded_segments import EncodedSegment

MAX_BYTES = 16 << 20
_ENTRY_BYTES = 250


class AnswerSegmentLog:
    """Segments in order of arrival; the oldest are dropped."""

    def __init__(self, *, max_bytes: int = MAX_BYTES) -> None:
        self.end = 0
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._segments: deque[EncodedSegment] = deque()

    def add(self, segments: Iterable[EncodedSegment]) -> None:
        for segment in segments:
            self._segments.append(segment)
            self._num_bytes += _size(segment)
            self.end += 1
        while self._num_bytes > self._max_bytes:
            self._num_bytes -= _size(self._segments.popleft())

    def after(self, number: int) -> list[EncodedSegment]:
        """Return the segments after the first `number` ones that are still stored."""
        first = self.end - len(self._segments)
        return list(islice(self._segments, max(0, number - first), None))


def _size(segment: EncodedSegment) -> int:
    return _ENTRY_BYTES + 4 * len(segment.token_ids)
