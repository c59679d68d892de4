"""What must hold of the chunks of an index, whatever was done to it. Pure; for tests and idle moments."""

from collections.abc import Mapping, Sequence

from mlxctl.prefix_cache.chunks import CHUNK_TOKENS, Key
from mlxctl.prefix_cache.entries import Checkpoint, Chunk, P
from mlxctl.prefix_cache.lookup import agree_up_to


def check_index(
    chunks: "Mapping[Key, Chunk[P]]", order: "Sequence[Chunk[P]]", states: "Sequence[Checkpoint[P]]"
) -> None:
    """Compare what chunks, states and the order of use say of each other.

    An AssertionError is a bug in the index.
    """
    places = {chunk.key: place for place, chunk in enumerate(order)}
    assert places.keys() == chunks.keys()
    for chunk in chunks.values():
        _check_place(chunk, places)
        _check_segments(chunk, chunks)
    held = {id(checkpoint) for chunk in chunks.values() for checkpoint in chunk.checkpoints}
    assert held == {id(state) for state in states}
    for state in states:
        assert all(state in owner.checkpoints for owner in state.owners)


def _check_place(chunk: "Chunk[P]", places: Mapping[Key, int]) -> None:
    assert chunk.num_leases >= 0
    assert not chunk.children or chunk.num_tokens == CHUNK_TOKENS
    assert not chunk.is_pinned or chunk.expires_at == float("inf")
    if chunk.parent is not None:
        assert chunk.parent.end == chunk.start
        assert places[chunk.parent.key] > places[chunk.key]
        assert chunk.parent.expires_at >= chunk.expires_at


def _check_segments(chunk: "Chunk[P]", chunks: "Mapping[Key, Chunk[P]]") -> None:
    assert chunk.num_shared_tokens <= chunk.num_tokens
    position = chunk.start
    for place, shared_segment in enumerate(chunk.shared_segments):
        position += shared_segment.num_tokens
        assert chunk in shared_segment.owners
        # Who has a stem has all that is before it, too, and says the same up to its end.
        assert all(
            chunks[owner.key] is owner
            and owner.shared_segments[: place + 1] == chunk.shared_segments[: place + 1]
            for owner in shared_segment.owners
        )
        assert all(agree_up_to(owner, chunk, position) for owner in shared_segment.owners)
