"""Records without a model, for tests of the disk tier.

A record's content depends on its seed and position. `python -m tests.prefix_cache.disk_records DIRECTORY
SEED` writes to a disk tier until it is killed.
"""

import itertools
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import mlx.core as mx

from mlxctl.ir.tokens import Salt, Tokens, pack
from mlxctl.prefix_cache.chunks import CHUNK_TOKENS
from mlxctl.prefix_cache.disk.directory import claim_directory
from mlxctl.prefix_cache.disk.encoding import decode
from mlxctl.prefix_cache.disk.stored import name_in_header
from mlxctl.prefix_cache.disk.tier import DiskTier, Record
from mlxctl.prefix_cache.entries import Checkpoint, Chunk
from mlxctl.prefix_cache.index import PrefixIndex
from mlxctl.prefix_cache.records import KVRecord, StateRecord

NAMESPACE = b"weights"


def opened(
    directory: Path,
    *,
    max_bytes: int = 1 << 30,
    min_free_bytes: int = 0,
    clock: Callable[[], float] = time.time,
) -> DiskTier:
    """Open a disk tier on the directory."""
    return DiskTier(
        claim_directory(directory),
        max_bytes=max_bytes,
        min_free_bytes=min_free_bytes,
        wake=lambda: None,
        clock=clock,
    )


def closed(tier: DiskTier) -> None:
    tier.close(deadline=time.monotonic() + 30)


def conversation(seed: int, num_tokens: int = 1200) -> Tokens:
    return pack([seed * 1000 + place % 1000 for place in range(num_tokens)])


def keys_and_values(seed: int, start: int, end: int) -> KVRecord:
    values = (mx.arange(start, end, dtype=mx.float32) + seed)[None, None, :, None] * mx.ones((2, 1, 1, 4))
    keys = values.astype(mx.bfloat16)
    mx.eval(keys, values)
    return KVRecord(((0, 1),), ((keys, values),))


def state(seed: int, position: int) -> StateRecord:
    window = mx.full((1, 2, 8, 4), seed + position, dtype=mx.float16)
    return StateRecord(([window, None], (window + 1, position, True)))


def publish_conversation(
    index: PrefixIndex[Record], seed: int, num_tokens: int = 1200, salts: Sequence[Salt] = ()
) -> Chunk[Record]:
    """Publish a conversation with states in its middle and at its end."""
    tokens = conversation(seed, num_tokens)
    parent: Chunk[Record] | None = None
    for start in range(0, num_tokens, CHUNK_TOKENS):
        end = min(start + CHUNK_TOKENS, num_tokens)
        record = keys_and_values(seed, start, end)
        parent = index.publish(
            NAMESPACE, parent, tokens[start:end].tobytes(), record, record.num_bytes, salts
        )
        assert parent is not None
        if start in (0, end - end % CHUNK_TOKENS):
            states = state(seed, end)
            index.add_checkpoint(parent, Checkpoint(end, states, states.num_bytes))
    assert parent is not None
    index.touch(parent)
    return parent


def store(tier: DiskTier, *seeds: int, num_tokens: int = 1200) -> None:
    """Write conversations to disk."""
    index: PrefixIndex[Record] = PrefixIndex(max_bytes=1 << 40)
    for seed in seeds:
        tier.store(publish_conversation(index, seed, num_tokens), deadline=time.monotonic() + 30)


def store_tokens(tier: DiskTier, index: PrefixIndex[Record], tokens: Tokens) -> None:
    """Write a conversation of these tokens to disk.

    Its keys and values are zeros.
    """
    place: Chunk[Record] | None = None
    for start in range(0, len(tokens), CHUNK_TOKENS):
        piece = tokens[start : start + CHUNK_TOKENS]
        record = keys_and_values(0, start, start + len(piece))
        place = index.publish(NAMESPACE, place, piece.tobytes(), record, record.num_bytes)
        assert place is not None
    assert place is not None
    assert tier.store(place, deadline=time.monotonic() + 30)


def read_all(tier: DiskTier) -> tuple[int, int]:
    """Read every record; return how many are intact and how many damaged.

    Fails if a record has wrong content.
    """
    num_whole = num_damaged = 0
    for chunk in list(tier.index.chunks()):
        for stored in (chunk.payload, *(checkpoint.payload for checkpoint in chunk.checkpoints)):
            if not tier.index.contains(chunk):
                continue
            data = _read(tier, stored)
            if data is None:
                tier.invalidate(chunk, stored.position, "for the test")
                num_damaged += 1
                continue
            seed = int.from_bytes(chunk.tokens[:4], sys.byteorder) // 1000
            record = decode(data, chunk=name_in_header(chunk, stored.position), position=stored.position)
            _assert_true(record, seed, chunk.start, chunk.end, stored.position)
            num_whole += 1
    return num_whole, num_damaged


def _read(tier: DiskTier, stored: object) -> bytes | None:
    tier.fetch([stored])
    while not (arrived := tier.arrivals()):
        time.sleep(0.0002)
    return arrived[0].data if arrived[0].failure is None else None


def _assert_true(record: Record, seed: int, start: int, end: int, position: int | None) -> None:
    if isinstance(record, KVRecord):
        expected = keys_and_values(seed, start, end)
        assert record.layers == expected.layers
        for one, other in zip(record.groups[0], expected.groups[0], strict=True):
            assert one.dtype == other.dtype
            assert mx.array_equal(one, other)
        return
    assert position is not None
    (first, none), (second, place, truth) = record.states
    assert mx.array_equal(first, mx.full((1, 2, 8, 4), seed + position, dtype=mx.float16))
    assert mx.array_equal(second, first + 1)
    assert (none, place, truth) == (None, position, True)


def _write_forever(directory: Path, first: int) -> None:
    # A small limit, so that old records are evicted all the time and their extents reused.
    tier = opened(directory, max_bytes=400_000)
    print("writing", flush=True)
    for seed in itertools.count(first):
        store(tier, seed % 1000, num_tokens=100 + seed % 7 * 100)
        tier.maintain()


if __name__ == "__main__":
    _write_forever(Path(sys.argv[1]), int(sys.argv[2]))
