"""Which payloads chunks share that begin alike: payload is cut where chunks part, and counted once. Pure.

Siblings whose first MIN_SHARED_TOKENS tokens agree hold what they have in common as stems. Chunks lie on a
grid, so without this every conversation on a trunk would keep the trunk's last, incomplete chunk again.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic

from mlxctl.ir.tokens import Salt, common_length, first_salt_difference
from mlxctl.prefix_cache.chunks import ID_BYTES
from mlxctl.prefix_cache.entries import Chunk, P, SharedSegment

# A stem has buffers of its own, which are limited in number: for fewer tokens it is not worth them.
MIN_SHARED_TOKENS = 16
_LEADING_BYTES = MIN_SHARED_TOKENS * ID_BYTES

SplitPayload = Callable[[P, int], tuple[P, P]]
"""Cuts a payload after so many of its tokens."""


@dataclass(frozen=True, slots=True)
class ReusablePrefix(Generic[P]):
    """What a new chunk need not bring along: the payload of its first `num_tokens` tokens, which `source` has."""

    source: "Chunk[P] | None" = None
    num_tokens: int = 0


def longest_reusable_prefix(
    siblings: "Iterable[Chunk[P]]", ids: bytes, salts: Sequence[Salt] = ()
) -> "ReusablePrefix[P]":
    """Return the offer of the sibling that a new chunk has most in common with.

    None of the siblings begins with all of it.
    """
    leading = ids[:_LEADING_BYTES]
    best: ReusablePrefix[P] = ReusablePrefix()
    for sibling in siblings:
        if len(leading) == _LEADING_BYTES and sibling.ids.startswith(leading):
            end = sibling.start + common_length(sibling.ids, ids) // ID_BYTES
            num_common = first_salt_difference(sibling.salts, salts, sibling.start, end) - sibling.start
            if num_common >= MIN_SHARED_TOKENS:
                best = max(best, _reusable_prefix(sibling, num_common), key=lambda reused: reused.num_tokens)
    return best


def _reusable_prefix(sibling: "Chunk[P]", num_common: int) -> "ReusablePrefix[P]":
    # What the new chunk goes on from is replaced by it, and made one piece again, but for what others have of
    # it.
    return ReusablePrefix(
        sibling, sibling.num_shared_tokens if num_common == sibling.num_tokens else num_common
    )


def attach_segments(
    chunk: "Chunk[P]", reused: "ReusablePrefix[P]", split: "SplitPayload[P]"
) -> "list[SharedSegment[P]]":
    """Give a chunk whose payload begins where the offer ends what was offered; return the stems that were
    made for it.

    The bytes of all payloads together stay what they were.
    """
    source = reused.source
    assert source is not None, "an offer without a donor gives nothing"
    made = _end_segment_at(source, reused.num_tokens, split)
    shared_segments, num_left = [], reused.num_tokens
    for shared_segment in source.shared_segments:
        if num_left <= 0:
            break
        shared_segment.owners.append(chunk)
        shared_segments.append(shared_segment)
        num_left -= shared_segment.num_tokens
    chunk.shared_segments = tuple(shared_segments)
    return made


def _end_segment_at(
    source: "Chunk[P]", num_tokens: int, split: "SplitPayload[P]"
) -> "list[SharedSegment[P]]":
    """Make a stem of the donor end after its first `num_tokens` tokens."""
    place = 0
    for shared_segment in source.shared_segments:
        if place < num_tokens < place + shared_segment.num_tokens:
            return [_split_segment(shared_segment, num_tokens - place, split)]
        place += shared_segment.num_tokens
    if num_tokens <= place:
        return []
    size = source.payload_bytes
    first, source.payload = split(source.payload, num_tokens - place)
    num_own = source.num_tokens - place
    first_bytes = size * (num_tokens - place) // num_own
    source.payload_bytes = size - first_bytes
    made = SharedSegment(num_tokens - place, first, first_bytes, [source])
    source.shared_segments = (*source.shared_segments, made)
    return [made]


def _split_segment(
    shared_segment: "SharedSegment[P]", num_tokens: int, split: "SplitPayload[P]"
) -> "SharedSegment[P]":
    """Cut a stem in two for all of its owners; return the second one."""
    first, second = split(shared_segment.payload, num_tokens)
    first_bytes = shared_segment.num_bytes * num_tokens // shared_segment.num_tokens
    rest = SharedSegment(
        shared_segment.num_tokens - num_tokens,
        second,
        shared_segment.num_bytes - first_bytes,
        list(shared_segment.owners),
    )
    shared_segment.num_tokens, shared_segment.payload, shared_segment.num_bytes = (
        num_tokens,
        first,
        first_bytes,
    )
    for owner in rest.owners:
        place = owner.shared_segments.index(shared_segment) + 1
        owner.shared_segments = (*owner.shared_segments[:place], rest, *owner.shared_segments[place:])
    return rest
