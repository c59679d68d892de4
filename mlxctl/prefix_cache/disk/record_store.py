"""Records on disk: index, extents and writer queue. MLX thread only."""

import logging
import math
from collections.abc import Callable

from mlxctl.prefix_cache.chunks import Key
from mlxctl.prefix_cache.disk.allocator import DiskAllocator
from mlxctl.prefix_cache.disk.directory import ClaimedDirectory
from mlxctl.prefix_cache.disk.encoding import encode
from mlxctl.prefix_cache.disk.loading import load
from mlxctl.prefix_cache.disk.manifest import ChunkRow
from mlxctl.prefix_cache.disk.space import SegmentSpace, segment_bytes
from mlxctl.prefix_cache.disk.stored import StoredRecord, name_in_header
from mlxctl.prefix_cache.disk.writer import ReassignOwner, RemoveRows, TruncateSegment, Writer, WriteRecord
from mlxctl.prefix_cache.entries import Checkpoint, Chunk
from mlxctl.prefix_cache.index import PrefixIndex
from mlxctl.prefix_cache.packing import Record
from mlxctl.prefix_cache.splitting import join_records

DEFAULT_TTL_SECONDS = 24 * 3600.0

# The index takes about 1 kB of memory for the record of a short prompt. So there are at most as many records
# as if each had this size on disk; those of most models are larger.
_LEAST_RECORD_BYTES = 2 * 1024**2
_LEAST_RECORDS = 4096

# Bound of the writer's queue: a burst of evictions is queued up to this size, the rest is dropped.
_MAX_PENDING_BYTES = 512 * 1024**2
_UNLIMITED_BYTES = 2**62

_log = logging.getLogger(__name__)


def max_records(max_bytes: int) -> int:
    """Return the largest number of records of a tier of `max_bytes`."""
    return max(_LEAST_RECORDS, max_bytes // _LEAST_RECORD_BYTES)


class RecordStore:
    """Writes chunks and their states; loads those of earlier runs.

    `has_unsaved_uses` says that times of use changed which are not in the manifest yet.
    """

    def __init__(
        self,
        directory: ClaimedDirectory,
        *,
        max_bytes: int,
        min_free_bytes: int,
        ttl_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self.num_skipped = 0
        self.num_damaged = 0
        self.has_unsaved_uses = False
        self.writer = Writer(directory.files, directory.manifest)
        self.ttl_seconds = ttl_seconds
        self._num_failures = 0
        self._clock = clock
        self._space = SegmentSpace(segment_bytes=segment_bytes(max_bytes))
        self._allocator = DiskAllocator(
            directory.path, self._space, self.writer, max_bytes=max_bytes, min_free_bytes=min_free_bytes
        )
        # No limit while loading: the order of use is known only after the last row.
        self.index: PrefixIndex[StoredRecord] = PrefixIndex(
            max_bytes=_UNLIMITED_BYTES,
            shares_fairly=True,
            clock=clock,
            on_release=self._allocator.release,
        )
        self._load(directory)
        self.index.max_bytes, self.index.max_buffers = max_bytes, max_records(max_bytes)
        self.enforce_limits()

    @property
    def num_file_bytes(self) -> int:
        """Length of all segment files together."""
        return self._space.num_bytes

    def enforce_limits(self) -> None:
        """Evict chunks beyond the byte limit or the free disk space."""
        self._allocator.enforce_limits(self.index)

    def _load(self, directory: ClaimedDirectory) -> None:
        rows, records = directory.manifest.chunks(), directory.manifest.records()
        self._num_uses = max((row.used for row in rows if isinstance(row.used, int)), default=0)
        sizes = directory.files.sizes()
        rejected = load(
            self.index, self._space, chunks=rows, records=records, file_sizes=sizes, now=self._clock()
        )
        self.writer.put(RemoveRows(rejected.extents, rejected.chunks))
        if rejected.num_lost:
            self._count_damage(
                f"{rejected.num_lost} are cut off or their file is missing", num=rejected.num_lost
            )
        used = self._space.sizes
        self.writer.put(
            *(
                TruncateSegment(number, used.get(number, 0))
                for number in sizes
                if sizes[number] > used.get(number, 0)
            )
        )

    def store(self, chunk: Chunk[Record], *, deadline: float | None = None) -> bool:
        """Write a chunk with its ancestors and states, except those on disk.

        Returns whether all of it is on disk or queued. What exceeds the writer's queue is skipped, after a
        wait until `deadline` on the monotonic clock if one is given.
        """
        try:
            is_stored = self._store_path(chunk, deadline)
        except Exception:
            # Eviction must continue whatever is wrong with a record.
            is_stored = False
            self._num_failures += 1
            if self._num_failures == 1:
                _log.exception(
                    "prefix cache: writing a record to disk failed; it is dropped; logged only this once"
                )
        self.num_skipped += not is_stored
        return is_stored

    def _store_path(self, chunk: Chunk[Record], deadline: float | None) -> bool:
        path = chunk.path()
        stored: Chunk[StoredRecord] | None = None
        for ancestor, child in zip(path, (*path[1:], None), strict=True):
            expires_at = ancestor.expires_at
            ttl = self.ttl_seconds if expires_at == math.inf else expires_at - self._clock()
            stored = self._store_chunk(stored, ancestor, ttl, deadline) if ttl > 0 else None
            if stored is None:
                return False
            if child is None or child.expires_at < expires_at:
                self.index.touch(stored, ttl_seconds=ttl)
                self.has_unsaved_uses = True
        return True

    def invalidate(self, chunk: Chunk[StoredRecord], position: int | None, reason: str) -> None:
        """Drop an unusable record.

        A chunk is dropped with its descendants, a state alone.
        """
        self._count_damage(reason)
        if position is None:
            self.index.discard(chunk)
            return
        for state in [state for state in chunk.checkpoints if state.position == position]:
            self.index.drop_checkpoint(chunk, state)

    def _count_damage(self, reason: str, *, num: int = 1) -> None:
        if not self.num_damaged:
            _log.warning(
                "prefix cache: a record on disk is unusable (%s); it counts as a miss; logged only this once",
                reason,
            )
        self.num_damaged += num

    def _store_chunk(
        self, parent: Chunk[StoredRecord] | None, chunk: Chunk[Record], ttl: float, deadline: float | None
    ) -> Chunk[StoredRecord] | None:
        stored_chunk = self.index.covering(chunk.namespace, parent, chunk.tokens, chunk.salts)
        if stored_chunk is None:
            stored_chunk = self._add_chunk(parent, chunk, ttl, deadline)
        if stored_chunk is not None:
            for state in chunk.checkpoints:
                if not stored_chunk.has_checkpoint_at(state.position):
                    self._add_state(stored_chunk, state, deadline)
            if chunk.is_pinned:
                self.index.keep_pinned(stored_chunk)
        return stored_chunk if stored_chunk is not None and self.index.contains(stored_chunk) else None

    def _add_chunk(
        self, parent: Chunk[StoredRecord] | None, chunk: Chunk[Record], ttl: float, deadline: float | None
    ) -> Chunk[StoredRecord] | None:
        stored = self._prepare(_joined_record(chunk), chunk.key, chunk.key, None, deadline)
        if stored is None:
            return None
        if parent is not None and not self.index.contains(parent):
            # The allocation evicted it.
            self._allocator.release(stored)
            return None
        stored_chunk = self.index.publish(
            chunk.namespace,
            parent,
            chunk.tokens,
            stored,
            stored.num_bytes,
            chunk.salts,
            ttl_seconds=ttl,
        )
        if stored_chunk is None:
            return None
        # One object for both: that of the chunk in memory goes with it.
        stored.chunk = stored_chunk.key
        row = ChunkRow(
            key=chunk.key,
            parent=parent.key if parent is not None else None,
            namespace=chunk.namespace,
            start=chunk.start,
            tokens=chunk.tokens,
            expires_at=stored_chunk.expires_at,
            is_pinned=stored_chunk.is_pinned,
            used=self.next_use(),
            salts=chunk.salts,
        )
        self.writer.put(WriteRecord(stored, stored.num_bytes, row))
        inherited = [state.payload for state in stored_chunk.checkpoints]
        if inherited:
            self.writer.put(ReassignOwner(tuple((record.extent, stored_chunk.key) for record in inherited)))
        return stored_chunk

    def _add_state(
        self, stored_chunk: Chunk[StoredRecord], state: Checkpoint[Record], deadline: float | None
    ) -> None:
        stored = self._prepare(
            state.payload,
            stored_chunk.key,
            name_in_header(stored_chunk, state.position),
            state.position,
            deadline,
        )
        # The allocation may have evicted the chunk itself.
        if stored is None or not self.index.contains(stored_chunk):
            if stored is not None:
                self._allocator.release(stored)
            return
        self.writer.put(WriteRecord(stored, stored.num_bytes, None))
        self.index.add_checkpoint(stored_chunk, Checkpoint(state.position, stored, stored.num_bytes))

    def _prepare(
        self, record: Record, key: Key, name: Key, position: int | None, deadline: float | None
    ) -> StoredRecord | None:
        """Encode a record and allocate its extent; None without room.

        `key` is its chunk, `name` the chunk field of its header.
        """
        self.drop_unwritten()
        if not self._writer_accepts(record.num_bytes, deadline):
            return None
        pieces = encode(record, chunk=name, position=position)
        extent = self._allocator.allocate(sum(map(len, pieces)), self.index)
        return (
            StoredRecord(extent=extent, chunk=key, position=position, pieces=pieces)
            if extent is not None
            else None
        )

    def _writer_accepts(self, num_bytes: int, deadline: float | None) -> bool:
        max_pending = max(0, _MAX_PENDING_BYTES - num_bytes)
        if self.writer.num_pending_bytes <= max_pending:
            return True
        return deadline is not None and self.writer.wait_below(max_pending, deadline=deadline)

    def drop_unwritten(self) -> None:
        """Drop the records that could not be written."""
        if self.writer.has_lost_manifest:
            self.writer.has_lost_manifest = False
            self._count_damage("the manifest was damaged or deleted", num=len(self.index))
            for lost in list(self.index.chunks()):
                if self.index.contains(lost):
                    self.index.discard(lost)
        while self.writer.failed:
            stored = self.writer.failed.popleft()
            chunk = self.index.find(stored.chunk)
            if chunk is not None and stored.position is None and chunk.payload is stored:
                self.index.discard(chunk)
            elif chunk is not None:
                for state in [state for state in chunk.checkpoints if state.payload is stored]:
                    self.index.drop_checkpoint(chunk, state)

    def next_use(self) -> int:
        """Return the next number in the order of use."""
        self._num_uses += 1
        return self._num_uses


def _joined_record(chunk: Chunk[Record]) -> Record:
    return join_records([payload for _, payload in chunk.payloads()])
