"""Import of archive records into a cache directory. Knows no MLX.

Nothing in the directory is evicted for it.
"""

import time
from typing import Literal

from mlxctl.prefix_cache.chunks import Key
from mlxctl.prefix_cache.disk.allocator import max_file_bytes
from mlxctl.prefix_cache.disk.archive import ChunkFrame, Frame, StateFrame
from mlxctl.prefix_cache.disk.directory import ClaimedDirectory
from mlxctl.prefix_cache.disk.loading import load
from mlxctl.prefix_cache.disk.manifest import ChunkRow, RecordRow
from mlxctl.prefix_cache.disk.space import SegmentSpace, segment_bytes
from mlxctl.prefix_cache.disk.stored import StoredRecord
from mlxctl.prefix_cache.entries import Checkpoint, Chunk
from mlxctl.prefix_cache.index import PrefixIndex

ImportOutcome = Literal["imported", "stored", "no_room"]


class ArchiveImporter:
    """Adds archive frames one by one to a locked directory.

    A record is written before its row, so a kill at any moment leaves the frames imported by then. A chunk
    without room is skipped with its descendants. Raises OSError and sqlite3.Error.
    """

    def __init__(self, directory: ClaimedDirectory, *, max_bytes: int, min_free_bytes: int) -> None:
        self._directory = directory
        self._manifest = directory.manifest
        self._max_bytes = max_bytes
        self._min_free_bytes = min_free_bytes
        self._space = SegmentSpace(segment_bytes=segment_bytes(max_bytes))
        self._index: PrefixIndex[StoredRecord] = PrefixIndex(max_bytes=2**62, on_release=self._release)
        rows, records = self._manifest.chunks(), self._manifest.records()
        self._used = {row.key: row.used for row in rows}
        self._first_use = 1 + max((row.used for row in rows if isinstance(row.used, int)), default=0)
        self._models = self._manifest.models()
        # Stored chunk for each key of the archive: the same, or a longer one with the same leading tokens.
        self._present: dict[Key, Chunk[StoredRecord]] = {}
        sizes = directory.files.sizes()
        rejected = load(
            self._index, self._space, chunks=rows, records=records, file_sizes=sizes, now=time.time()
        )
        self._manifest.remove(rejected.extents, rejected.chunks)

    def take(self, frame: Frame, data: bytes) -> ImportOutcome:
        """Write a record unless it is stored already or has no room.

        Descendants of a chunk without room are skipped, too.
        """
        return (
            self._take_chunk(frame, data) if isinstance(frame, ChunkFrame) else self._take_state(frame, data)
        )

    def finish(self) -> None:
        """Write the final lifetimes.

        A stored parent may have to outlive imported children.
        """
        chunks = self._index.chunks()
        self._manifest.update_chunks(
            [(chunk.key, chunk.expires_at, chunk.is_pinned, self._used[chunk.key]) for chunk in chunks]
        )

    def _take_chunk(self, frame: ChunkFrame, data: bytes) -> ImportOutcome:
        parent = self._index.find(frame.parent) if frame.parent is not None else None
        if parent is None and frame.parent is not None:
            return "no_room"
        existing = self._index.covering(frame.namespace, parent, frame.tokens, frame.salts)
        if existing is not None:
            self._present[frame.key] = existing
            return "stored"
        stored = self._write(data, frame.key, None, frame.digest)
        if stored is None:
            return "no_room"
        size = len(data)
        chunk = self._index.publish(
            frame.namespace, parent, frame.tokens, stored, size, frame.salts, ttl_seconds=frame.ttl_seconds
        )
        assert chunk is not None, "an index without a limit takes every chunk"
        if frame.is_pinned:
            self._index.keep_pinned(chunk)
        self._present[frame.key] = chunk
        self._used[frame.key] = self._first_use + frame.used
        self._add_row(frame, chunk)
        return "imported"

    def _take_state(self, frame: StateFrame, data: bytes) -> ImportOutcome:
        chunk = self._present.get(frame.chunk)
        if chunk is None:
            return "no_room"
        if not self._index.contains(chunk) or chunk.has_checkpoint_at(frame.position):
            return "stored"
        stored = self._write(data, chunk.key, frame.position, frame.digest)
        if stored is None:
            return "no_room"
        self._manifest.add(_row(stored), None)
        self._index.add_checkpoint(chunk, Checkpoint(frame.position, stored, len(data)))
        return "imported"

    def _add_row(self, frame: ChunkFrame, chunk: Chunk[StoredRecord]) -> None:
        row = ChunkRow(
            key=frame.key,
            parent=frame.parent,
            namespace=frame.namespace,
            start=frame.start,
            tokens=frame.tokens,
            salts=frame.salts,
            expires_at=chunk.expires_at,
            is_pinned=chunk.is_pinned,
            used=self._used[frame.key],
        )
        self._manifest.add(_row(chunk.payload), row)
        self._manifest.reassign_owners([(state.payload.extent, chunk.key) for state in chunk.checkpoints])
        if frame.model is not None and frame.namespace not in self._models:
            self._models[frame.namespace] = frame.model
            self._manifest.set_model_name(frame.namespace, frame.model)

    def _write(self, data: bytes, key: Key, position: int | None, digest: bytes) -> StoredRecord | None:
        max_bytes = max_file_bytes(
            self._directory.path, self._space, max_bytes=self._max_bytes, min_free_bytes=self._min_free_bytes
        )
        extent = self._space.allocate(len(data), max_growth=max(0, max_bytes - self._space.num_bytes))
        if extent is None:
            return None
        self._directory.files.write(extent, [data])
        return StoredRecord(extent=extent, chunk=key, position=position, digest=digest)

    def _release(self, stored: StoredRecord) -> None:
        self._manifest.remove((stored.extent,))
        size = self._space.free(stored.extent)
        if size is not None:
            self._directory.files.shorten(stored.extent.segment, size)


def _row(stored: StoredRecord) -> RecordRow:
    return RecordRow(extent=stored.extent, digest=stored.digest, chunk=stored.chunk, position=stored.position)
