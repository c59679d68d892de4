"""Index of the disk tier from manifest rows, which are validated first.

Reads no file; only the lengths of the segment files are known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlxctl.prefix_cache.chunks import CHUNK_TOKENS, Key, chunk_key, root_key
from mlxctl.prefix_cache.disk.manifest import ChunkRow, RecordRow
from mlxctl.prefix_cache.disk.space import Extent, SegmentSpace
from mlxctl.prefix_cache.disk.stored import StoredRecord
from mlxctl.prefix_cache.entries import Checkpoint, Chunk
from mlxctl.prefix_cache.index import PrefixIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRows:
    """Rows that are expired, invalid, or incomplete.

    They lie beyond their file, or lack a parent or record. For `num_lost` records the segment file is too
    short or missing.
    """

    extents: tuple[Extent, ...]
    chunks: tuple[Key, ...]
    num_lost: int


def load(
    index: PrefixIndex[StoredRecord],
    space: SegmentSpace,
    *,
    chunks: Sequence[ChunkRow],
    records: Sequence[RecordRow],
    file_sizes: Mapping[int, int],
    now: float,
) -> RejectedRows:
    """Fill an empty index and its space; return rejected rows.

    Segments are not read: damage of a record shows when it is restored.
    """
    plausible = [row for row in records if is_valid_record_row(row)]
    fitting = [row for row in plausible if row.extent.end <= file_sizes.get(row.extent.segment, 0)]
    overlapping = set(space.reserve([row.extent for row in fitting]))
    stored = {
        (row.chunk, row.position): StoredRecord(
            extent=row.extent, chunk=row.chunk, position=row.position, digest=row.digest
        )
        for row in fitting
        if row.extent not in overlapping
    }
    taken = _add_chunks(index, chunks, stored, now) | _add_states(index, stored)
    for row in chunks:
        chunk = index.find(row.key)
        if chunk is not None and not chunk.children:
            index.touch(chunk, ttl_seconds=0)
    for record in stored.values():
        if record.extent not in taken:
            space.free(record.extent)
    return RejectedRows(
        extents=tuple(row.extent for row in records if row.extent not in taken),
        chunks=tuple(row.key for row in chunks if index.find(row.key) is None),
        num_lost=len(plausible) - len(fitting),
    )


def _add_chunks(
    index: PrefixIndex[StoredRecord],
    rows: Sequence[ChunkRow],
    stored: Mapping[tuple[Key, int | None], StoredRecord],
    now: float,
) -> set[Extent]:
    taken = set()
    for row in sorted((row for row in rows if is_valid_chunk_row(row)), key=lambda row: row.start):
        record = stored.get((row.key, None))
        parent = index.find(row.parent) if row.parent is not None else None
        if record is None or row.expires_at <= now or not _follows(row, parent):
            continue
        ttl = None if row.is_pinned else row.expires_at - now
        chunk = index.publish(
            row.namespace,
            parent,
            row.tokens,
            record,
            record.num_bytes,
            row.salts or (),
            ttl_seconds=ttl,
        )
        if chunk is not None and chunk.payload is record:
            taken.add(record.extent)
            record.chunk = chunk.key
            if row.is_pinned:
                index.keep_pinned(chunk)
    return taken


def _add_states(
    index: PrefixIndex[StoredRecord], stored: Mapping[tuple[Key, int | None], StoredRecord]
) -> set[Extent]:
    taken = set()
    for (key, position), record in stored.items():
        chunk = index.find(key)
        if (
            position is None
            or chunk is None
            or not chunk.start < position <= chunk.end
            or chunk.has_checkpoint_at(position)
        ):
            continue
        record.chunk = chunk.key
        index.add_checkpoint(chunk, Checkpoint(position, record, record.num_bytes))
        taken.add(record.extent)
    return taken


def _follows(row: ChunkRow, parent: Chunk[StoredRecord] | None) -> bool:
    """Whether the chunk's key, start and parent are consistent."""
    start = parent.end if parent is not None else 0
    if row.start != start or start % CHUNK_TOKENS or (parent is None) != (row.parent is None):
        return False
    above = parent.key if parent is not None else root_key(row.namespace)
    return chunk_key(above, row.tokens, row.salts or (), start=row.start) == row.key


def is_valid_chunk_row(row: ChunkRow) -> bool:
    """Whether the column types are right.

    SQLite stores any type in any column.
    """
    blobs = (row.key, row.namespace, row.tokens)
    return (
        all(isinstance(blob, bytes) for blob in blobs)
        and isinstance(row.parent, bytes | None)
        and isinstance(row.start, int)
        and isinstance(row.expires_at, float | int)
        and row.salts is not None
        and 0 < len(row.tokens) <= 4 * CHUNK_TOKENS
        and len(row.tokens) % 4 == 0
    )


def is_valid_record_row(row: RecordRow) -> bool:
    """Whether the column types and ranges are right."""
    extent = row.extent
    numbers = (extent.segment, extent.offset, extent.num_bytes)
    is_number = all(isinstance(number, int) and number >= 0 for number in numbers)
    return is_number and isinstance(row.chunk, bytes) and isinstance(row.position, int | None)
