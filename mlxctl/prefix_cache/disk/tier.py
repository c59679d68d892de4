"""Disk tier: records evicted from memory, kept for a later restore.

MLX thread only.

- A second index of the same kind lists what is on disk; its payloads are extents of segment files.
- A leaf that is evicted from memory is written with its ancestors, as far as they are not on disk yet.
  Records that were promoted to memory stay on disk, so their next eviction writes nothing.
- A failure in this package is a miss, logged once.
"""

import logging
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from mlxctl.errors import StoreError
from mlxctl.prefix_cache.chunks import Key
from mlxctl.prefix_cache.disk.allocator import DiskAllocator
from mlxctl.prefix_cache.disk.directory import MANIFEST, ClaimedDirectory, claim_directory
from mlxctl.prefix_cache.disk.encoding import encode
from mlxctl.prefix_cache.disk.loading import load
from mlxctl.prefix_cache.disk.manifest import ChunkRow
from mlxctl.prefix_cache.disk.reader import Fetch, FetchedRecord, Reader
from mlxctl.prefix_cache.disk.space import SegmentSpace, segment_bytes
from mlxctl.prefix_cache.disk.stored import StoredRecord, name_in_header
from mlxctl.prefix_cache.disk.writer import (
    ReassignOwner,
    RemoveRows,
    SetModelName,
    TruncateSegment,
    UpdateChunks,
    Writer,
    WriteRecord,
)
from mlxctl.prefix_cache.entries import Checkpoint, Chunk
from mlxctl.prefix_cache.index import PrefixIndex
from mlxctl.prefix_cache.packing import Record
from mlxctl.prefix_cache.splitting import join_records
from mlxctl.stores.damage import remove_set_aside

DEFAULT_TTL_SECONDS = 24 * 3600.0

# Bound of the writer's queue: a burst of evictions is queued up to this size, the rest is dropped.
_MAX_PENDING_BYTES = 512 * 1024**2
_SAVE_USAGE_SECONDS = 60.0
_UNLIMITED_BYTES = 2**62

_log = logging.getLogger(__name__)


class DiskTier:
    """One directory, locked while the tier is open.

    `wake` is called from the reader thread when a promotion can continue.
    """

    def __init__(
        self,
        directory: ClaimedDirectory,
        *,
        max_bytes: int,
        min_free_bytes: int,
        ttl_seconds: float = DEFAULT_TTL_SECONDS,
        wake: Callable[[], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.max_bytes = max_bytes
        self.num_skipped = 0
        self.num_damaged = 0
        self._ttl_seconds = ttl_seconds
        self._num_failures = 0
        self._directory = directory
        self._clock = clock
        self._space = SegmentSpace(segment_bytes=segment_bytes(max_bytes))
        self._models = directory.manifest.models()
        rows, records = directory.manifest.chunks(), directory.manifest.records()
        self._num_uses = max((row.used for row in rows if isinstance(row.used, int)), default=0)
        self._usage_saved_at = clock()
        self._has_unsaved_changes = False
        self._writer = Writer(directory.files, directory.manifest)
        self._reader = Reader(directory.files, wake)
        self._allocator = DiskAllocator(
            directory.path, self._space, self._writer, max_bytes=max_bytes, min_free_bytes=min_free_bytes
        )
        # No limit while loading: the order of use is known only after the last row.
        self.index: PrefixIndex[StoredRecord] = PrefixIndex(
            max_bytes=_UNLIMITED_BYTES, clock=clock, on_release=self._allocator.release
        )
        sizes = directory.files.sizes()
        rejected = load(self.index, self._space, chunks=rows, records=records, file_sizes=sizes, now=clock())
        self._writer.put(RemoveRows(rejected.extents, rejected.chunks))
        if rejected.num_lost:
            self._count_damage(
                f"{rejected.num_lost} are cut off or their file is missing", num=rejected.num_lost
            )
        used = self._space.sizes
        self._writer.put(
            *(
                TruncateSegment(number, used.get(number, 0))
                for number in sizes
                if sizes[number] > used.get(number, 0)
            )
        )
        self.index.max_bytes = max_bytes
        self._allocator.enforce_limits(self.index)

    @classmethod
    def open(
        cls,
        cache_directory: Path,
        *,
        max_bytes: int,
        min_free_bytes: int,
        ttl_seconds: float,
        wake: Callable[[], None],
    ) -> "DiskTier | None":
        """Lock the directory and return the tier, None on failure.

        A failure logs one line.
        """
        try:
            directory = claim_directory(cache_directory)
            try:
                return cls(
                    directory,
                    max_bytes=max_bytes,
                    min_free_bytes=min_free_bytes,
                    ttl_seconds=ttl_seconds,
                    wake=wake,
                )
            except BaseException:
                directory.lock.release()
                raise
        except (StoreError, OSError) as error:
            _log.warning("prefix cache: running without its disk tier: %s", error)
        except Exception:
            # The engine must start whatever the files contain.
            _log.exception(
                "prefix cache: running without its unreadable disk tier; `mlxctl cache clear` removes it"
            )
        return None

    @property
    def file_bytes(self) -> int:
        """Length of all segment files together."""
        return self._space.num_bytes

    def set_model_name(self, namespace: bytes, model: str) -> None:
        """Store the display name of a namespace's model."""
        if self._models.get(namespace) != model:
            self._models[namespace] = model
            self._writer.put(SetModelName(namespace, model))

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
            ttl = self._ttl_seconds if expires_at == math.inf else expires_at - self._clock()
            stored = self._store_chunk(stored, ancestor, ttl, deadline) if ttl > 0 else None
            if stored is None:
                return False
            if child is None or child.expires_at < expires_at:
                self.index.touch(stored, ttl_seconds=ttl)
                self._has_unsaved_changes = True
        return True

    def fetch(self, records: Sequence[StoredRecord]) -> Fetch:
        """Queue records to be read; `arrivals` returns them in this order.

        The caller leases their chunks until the last one.
        """
        fetch = Fetch(records)
        self._reader.put(fetch)
        return fetch

    def arrivals(self) -> list[FetchedRecord]:
        """Return the records read since the last call."""
        return self._reader.take()

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

    def pin(self, key: Key) -> bool:
        """Pin a prefix; False when it is not on disk."""
        return self.index.pin(key) and self._save_usage()

    def unpin(self, key: Key) -> bool:
        """Unpin a prefix, which then does not expire.

        False when it was not pinned.
        """
        return self.index.unpin(key) and self._save_usage()

    def clear(self) -> int:
        """Remove all chunks that are not pinned or leased.

        Renamed damaged manifests are deleted, too. Returns the number of chunks.
        """
        # SEC: the rows of a manifest contain prompts.
        remove_set_aside(self._directory.path / MANIFEST)
        return self.index.clear()

    def touch(self, key: Key) -> None:
        """Make a prefix the most recently used, if it is on disk."""
        chunk = self.index.find(key)
        if chunk is not None:
            self.index.touch(chunk, ttl_seconds=0)
            self._has_unsaved_changes = True

    def maintain(self) -> None:
        """Drop expired and unwritten records, enforce limits, save usage.

        Cheap; called while the engine is idle.
        """
        self._drop_unwritten()
        self.index.expire()
        self._allocator.enforce_limits(self.index)
        if self._has_unsaved_changes and self._clock() - self._usage_saved_at > _SAVE_USAGE_SECONDS:
            self._save_usage()

    def close(self, *, deadline: float) -> None:
        """Write what is queued and unlock the directory.

        Writing ends at `deadline` on the monotonic clock.
        """
        self._directory.lock.announce_release()
        self._reader.close()
        self._drop_unwritten()
        owners = [(state.payload, chunk) for chunk in self.index.chunks() for state in chunk.checkpoints]
        stale = {record: chunk.key for record, chunk in owners if self.index.find(record.chunk) is None}
        self._writer.put(ReassignOwner(tuple((record.extent, key) for record, key in stale.items())))
        self._save_usage()
        self._writer.close(deadline=deadline)
        self._directory.lock.release()

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
                self.index.pin(stored_chunk.key)
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
            stored.extent.num_bytes,
            chunk.salts,
            ttl_seconds=ttl,
        )
        if stored_chunk is None:
            return None
        row = ChunkRow(
            key=chunk.key,
            parent=parent.key if parent is not None else None,
            namespace=chunk.namespace,
            start=chunk.start,
            tokens=chunk.tokens,
            expires_at=stored_chunk.expires_at,
            is_pinned=stored_chunk.is_pinned,
            used=self._next_use(),
            salts=chunk.salts,
        )
        self._writer.put(WriteRecord(stored, stored.extent.num_bytes, row))
        inherited = [state.payload for state in stored_chunk.checkpoints]
        if inherited:
            self._writer.put(ReassignOwner(tuple((record.extent, stored_chunk.key) for record in inherited)))
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
        self._writer.put(WriteRecord(stored, stored.extent.num_bytes, None))
        self.index.add_checkpoint(stored_chunk, Checkpoint(state.position, stored, stored.extent.num_bytes))

    def _prepare(
        self, record: Record, key: Key, name: Key, position: int | None, deadline: float | None
    ) -> StoredRecord | None:
        """Encode a record and allocate its extent; None without room.

        `key` is its chunk, `name` the chunk field of its header.
        """
        self._drop_unwritten()
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
        if self._writer.num_pending_bytes <= max_pending:
            return True
        return deadline is not None and self._writer.wait_below(max_pending, deadline=deadline)

    def _drop_unwritten(self) -> None:
        if self._writer.has_lost_manifest:
            self._writer.has_lost_manifest = False
            self._count_damage("the manifest was damaged", num=len(self.index))
            for lost in list(self.index.chunks()):
                if self.index.contains(lost):
                    self.index.discard(lost)
        while self._writer.failed:
            stored = self._writer.failed.popleft()
            chunk = self.index.find(stored.chunk)
            if chunk is not None and stored.position is None and chunk.payload is stored:
                self.index.discard(chunk)
            elif chunk is not None:
                for state in [state for state in chunk.checkpoints if state.payload is stored]:
                    self.index.drop_checkpoint(chunk, state)

    def _save_usage(self) -> bool:
        rows = (
            (chunk.key, chunk.expires_at, chunk.is_pinned, self._next_use()) for chunk in self.index.chunks()
        )
        self._writer.put(UpdateChunks(tuple(rows)))
        self._usage_saved_at = self._clock()
        self._has_unsaved_changes = False
        return True

    def _next_use(self) -> int:
        self._num_uses += 1
        return self._num_uses


def _joined_record(chunk: Chunk[Record]) -> Record:
    return join_records([payload for _, payload in chunk.payloads()])
