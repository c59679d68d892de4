"""Payload segments shared by sibling chunks with equal leading tokens. Pure.

Chunks lie on a grid of CHUNK_TOKENS. Without sharing, every conversation that branches inside a chunk would
store the tokens before the branch again. Siblings whose first MIN_REUSE_TOKENS tokens agree share the payload
of their common tokens as segments: a payload is split where chunks differ, and its bytes count once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic

from mlxctl.ir.tokens import Salt
from mlxctl.prefix_cache.entries import Chunk, P, SharedSegment
from mlxctl.prefix_cache.policy import MIN_REUSE_TOKENS
from mlxctl.prefix_cache.siblings import MAX_CLOSEST, Siblings

SplitPayload = Callable[[P, int], tuple[P, P]]
"""Splits a payload after a number of its tokens."""


@dataclass(frozen=True, slots=True)
class ReusablePrefix(Generic[P]):
    """Leading tokens of a new chunk whose payload the sibling `source` holds."""

    source: "Chunk[P] | None" = None
    num_tokens: int = 0


def longest_reusable_prefix(
    siblings: "Siblings[Chunk[P]]", ids: bytes, salts: Sequence[Salt] = ()
) -> "ReusablePrefix[P]":
    """Return the longest prefix that a sibling shares.

    No sibling may start with all of `ids`: such a chunk would not be added. Shorter segments than
    MIN_REUSE_TOKENS are not worth their buffers, which are limited in number.
    """
    best: ReusablePrefix[P] = ReusablePrefix()
    for sibling, end in islice(siblings.closest(ids, salts), MAX_CLOSEST):
        if end - siblings.start < MIN_REUSE_TOKENS:
            break
        best = max(
            best, _reusable_prefix(sibling, end - siblings.start), key=lambda prefix: prefix.num_tokens
        )
    return best


def _reusable_prefix(sibling: "Chunk[P]", num_common: int) -> "ReusablePrefix[P]":
    # A new chunk that extends a sibling replaces it, with one payload; only segments of other owners stay.
    return ReusablePrefix(
        sibling, sibling.num_shared_tokens if num_common == sibling.num_tokens else num_common
    )


def attach_segments(
    chunk: "Chunk[P]", reused: "ReusablePrefix[P]", split: "SplitPayload[P]"
) -> "list[SharedSegment[P]]":
    """Give a chunk the segments of its reused tokens.

    Returns segments created for it. The chunk's own payload starts after the reused tokens. The bytes of all
    payloads together do not change.
    """
    source = reused.source
    assert source is not None, "reused tokens have a source"
    created = _end_segment_at(source, reused.num_tokens, split)
    segments, num_left = [], reused.num_tokens
    for segment in source.shared_segments:
        if num_left <= 0:
            break
        segment.owners.append(chunk)
        segments.append(segment)
        num_left -= segment.num_tokens
    chunk.shared_segments = tuple(segments)
    return created


def _end_segment_at(
    source: "Chunk[P]", num_tokens: int, split: "SplitPayload[P]"
) -> "list[SharedSegment[P]]":
    """Make a segment of the chunk end after `num_tokens` tokens.

    Returns segments created.
    """
    position = 0
    for segment in source.shared_segments:
        if position < num_tokens < position + segment.num_tokens:
            return [_split_segment(segment, num_tokens - position, split)]
        position += segment.num_tokens
    if num_tokens <= position:
        return []
    size = source.payload_bytes
    first, source.payload = split(source.payload, num_tokens - position)
    first_bytes = size * (num_tokens - position) // (source.num_tokens - position)
    source.payload_bytes = size - first_bytes
    created = SharedSegment(num_tokens - position, first, first_bytes, [source])
    source.shared_segments = (*source.shared_segments, created)
    return [created]


def _split_segment(
    segment: "SharedSegment[P]", num_tokens: int, split: "SplitPayload[P]"
) -> "SharedSegment[P]":
    """Split a segment for all of its owners; return the second part."""
    first, second = split(segment.payload, num_tokens)
    first_bytes = segment.num_bytes * num_tokens // segment.num_tokens
    rest = SharedSegment(
        segment.num_tokens - num_tokens, second, segment.num_bytes - first_bytes, list(segment.owners)
    )
    segment.num_tokens, segment.payload, segment.num_bytes = num_tokens, first, first_bytes
    for owner in rest.owners:
        index = owner.shared_segments.index(segment) + 1
        owner.shared_segments = (*owner.shared_segments[:index], rest, *owner.shared_segments[index:])
    return rest
