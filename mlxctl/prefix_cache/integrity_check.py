"""Invariants of the chunk tree, checked by tests. Pure."""

from collections.abc import Callable, Collection, Mapping, Sequence

from mlxctl.prefix_cache.chunks import CHUNK_TOKENS, Key
from mlxctl.prefix_cache.entries import Checkpoint, Chunk, P


def check_links(
    chunks: "Mapping[Key, Chunk[P]]", order: "Sequence[Chunk[P]]", states: "Sequence[Checkpoint[P]]"
) -> None:
    """Compare chunks, states and the order of use.

    Raises AssertionError on a difference.
    """
    ranks = {chunk.key: rank for rank, chunk in enumerate(order)}
    assert ranks.keys() == chunks.keys()
    for chunk in chunks.values():
        _check_parent(chunk, ranks)
        _check_segments(chunk, chunks)
    owned = {id(checkpoint) for chunk in chunks.values() for checkpoint in chunk.checkpoints}
    assert owned == {id(state) for state in states}
    for state in states:
        assert all(state in owner.checkpoints for owner in state.owners)


def check_payloads(
    chunks: "Collection[Chunk[P]]", buffers_of: Callable[[P], int], num_bytes: int, num_buffers: int
) -> None:
    """Recount bytes and buffers of all chunk payloads.

    Raises AssertionError on a difference.
    """
    segments = {id(segment): segment for chunk in chunks for segment in chunk.shared_segments}.values()
    payloads = [chunk.payload for chunk in chunks] + [segment.payload for segment in segments]
    segment_bytes = sum(segment.num_bytes for segment in segments)
    assert num_bytes == sum(chunk.payload_bytes for chunk in chunks) + segment_bytes
    assert num_buffers == sum(map(buffers_of, payloads))


def _check_parent(chunk: "Chunk[P]", ranks: Mapping[Key, int]) -> None:
    assert chunk.num_leases >= 0
    assert not chunk.children or chunk.num_tokens == CHUNK_TOKENS
    assert not chunk.is_pinned or chunk.expires_at == float("inf")
    if chunk.parent is not None:
        assert chunk.parent.end == chunk.start
        assert ranks[chunk.parent.key] > ranks[chunk.key]
        assert chunk.parent.expires_at >= chunk.expires_at


def _check_segments(chunk: "Chunk[P]", chunks: "Mapping[Key, Chunk[P]]") -> None:
    assert chunk.num_shared_tokens <= chunk.num_tokens
    position = chunk.start
    for count, segment in enumerate(chunk.shared_segments, 1):
        position += segment.num_tokens
        assert chunk in segment.owners
        # An owner of a segment owns all segments before it and has the same tokens up to its end.
        assert all(
            chunks[owner.key] is owner and owner.shared_segments[:count] == chunk.shared_segments[:count]
            for owner in segment.owners
        )
        assert all(owner.agrees_with(chunk, position) for owner in segment.owners)
