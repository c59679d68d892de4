"""The warm tier: what memory has no room for goes to disk, and comes back when it is asked for.

MLX thread only.

Beside the index of what is in memory stands a second one, of what is on disk, with the same chains and the
same rules; its payloads say where the bytes lie. What was brought back to memory stays on disk, so that to
evict it again writes nothing. A failure in here is a miss, logged once.
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

# Records that may wait for the writer: a burst of evictions is copied, not waited for, and beyond this it is
# forgotten.
_MAX_PENDING_BYTES = 512 * 1024**2
_RENEW_EVERY_SECONDS = 60.0
_UNLIMITED_BYTES = 2**62

_log = logging.getLogger(__name__)


class DiskTier:
    """One directory, claimed for as long as the tier is open.

    `wake` is called from another thread when a fetch goes on.
    """

    def __init__(
        self,
        directory: ClaimedDirectory,
        *,
        max_bytes: int,
        min_free_bytes: int,
        wake: Callable[[], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.max_bytes = max_bytes
        self.num_skipped = 0
        self.num_damaged = 0
        self._num_failures = 0
        self._directory = directory
        self._clock = clock
        self._space = SegmentSpace(segment_bytes=segment_bytes(max_bytes))
        self._models = directory.manifest.models()
        rows, records = directory.manifest.chunks(), directory.manifest.records()
        self._num_uses = max((row.used for row in rows if isinstance(row.used, int)), default=0)
        self._renewed_at = clock()
        self._has_unsaved_changes = False
        self._writer = Writer(directory.files, directory.manifest)
        self._reader = Reader(directory.files, wake)
        self._allocator = DiskAllocator(
            directory.path, self._space, self._writer, max_bytes=max_bytes, min_free_bytes=min_free_bytes
        )
        # Nothing is evicted before the order of use is known, which is when all is there.
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
        kept = self._space.sizes
        self._writer.put(
            *(
                TruncateSegment(number, kept.get(number, 0))
                for number in sizes
                if sizes[number] > kept.get(number, 0)
            )
        )
        self.index.max_bytes = max_bytes
        self._allocator.enforce_limits(self.index)

    @classmethod
    def open(
        cls, cache_directory: Path, *, max_bytes: int, min_free_bytes: int, wake: Callable[[], None]
    ) -> "DiskTier | None":
        """Claim the directory; when that is impossible, say why in one line of the log and return None."""
        try:
            directory = claim_directory(cache_directory)
            try:
                return cls(directory, max_bytes=max_bytes, min_free_bytes=min_free_bytes, wake=wake)
            except BaseException:
                directory.lock.release()
                raise
        except (StoreError, OSError) as error:
            _log.warning("prefix cache: running without its disk tier: %s", error)
        except Exception:
            # The engine must start whatever is in the files.
            _log.exception(
                "prefix cache: running without its disk tier, which cannot be read; `mlxctl cache clear` removes it"
            )
        return None

    @property
    def file_bytes(self) -> int:
        """Length of all segment files together."""
        return self._space.num_bytes

    def set_model_name(self, namespace: bytes, model: str) -> None:
        """Note what the model of a namespace is called, for people who look at the directory."""
        if self._models.get(namespace) != model:
            self._models[namespace] = model
            self._writer.put(SetModelName(namespace, model))

    def store(self, chunk: Chunk[Record], *, deadline: float | None = None) -> bool:
        """Write the chunk with everything it builds on and all states in it, as far as that is not there
        already.

        Returns whether all of it is on disk or on its way. What the writer has no room for is left out; with
        a `deadline` on the monotonic clock it is waited for until then.
        """
        try:
            is_kept = self._store_path(chunk, deadline)
        except Exception:
            # Eviction must go on whatever is wrong with a record.
            is_kept = False
            self._num_failures += 1
            if self._num_failures == 1:
                _log.exception(
                    "prefix cache: keeping a record on disk failed; it is forgotten; logged only this once"
                )
        self.num_skipped += not is_kept
        return is_kept

    def _store_path(self, chunk: Chunk[Record], deadline: float | None) -> bool:
        path: list[Chunk[Record]] = []
        place: Chunk[Record] | None = chunk
        while place is not None:
            path.append(place)
            place = place.parent
        held: Chunk[StoredRecord] | None = None
        for place, following in zip(reversed(path), (*reversed(path[:-1]), None), strict=True):
            ttl = DEFAULT_TTL_SECONDS if place.expires_at == math.inf else place.expires_at - self._clock()
            held = self._store_chunk(held, place, ttl, deadline) if ttl > 0 else None
            if held is None:
                return False
            if following is None or following.expires_at < place.expires_at:
                self.index.touch(held, ttl_seconds=ttl)
                self._has_unsaved_changes = True
        return True

    def fetch(self, records: Sequence[StoredRecord]) -> Fetch:
        """Have these read; they come as arrivals, in this order.

        Whoever asks leases their chunks until the last has come.
        """
        fetch = Fetch(records)
        self._reader.put(fetch)
        return fetch

    def arrivals(self) -> list[FetchedRecord]:
        """Return what has been read since the last call."""
        return self._reader.take()

    def invalidate(self, chunk: Chunk[StoredRecord], position: int | None, reason: str) -> None:
        """Forget a record that turned out to be of no use: a chunk with everything that builds on it, or a
        state in it.
        """
        self._count_damage(reason)
        if position is None:
            self.index.discard(chunk)
            return
        for state in [state for state in chunk.checkpoints if state.position == position]:
            self.index.drop_checkpoint(chunk, state)

    def pin(self, key: Key) -> bool:
        """Keep a prefix for good; False when it is not on disk."""
        return self.index.pin(key) and self._save_usage()

    def unpin(self, key: Key) -> bool:
        """End that; False when it was not pinned. It then lives until its room is needed."""
        return self.index.unpin(key) and self._save_usage()

    def clear(self) -> int:
        """Drop everything that is not pinned or in use, and damaged manifests; return how many chunks that
        were.
        """
        # SEC: the rows of a manifest hold prompts.
        remove_set_aside(self._directory.path / MANIFEST)
        return self.index.clear()

    def touch(self, key: Key) -> None:
        """Make a prefix the most recently used, if it is on disk."""
        chunk = self.index.find(key)
        if chunk is not None:
            self.index.touch(chunk, ttl_seconds=0)
            self._has_unsaved_changes = True

    def maintain(self) -> None:
        """Forget what has expired or could not be written, keep the limits, write down what was used.

        Cheap; for idle moments.
        """
        self._drop_unwritten()
        self.index.expire()
        self._allocator.enforce_limits(self.index)
        if self._has_unsaved_changes and self._clock() - self._renewed_at > _RENEW_EVERY_SECONDS:
            self._save_usage()

    def close(self, *, deadline: float) -> None:
        """Write what is left, until the deadline on the monotonic clock, and let the directory go."""
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
                "prefix cache: a record on disk is of no use (%s); it counts as a miss; logged only this once",
                reason,
            )
        self.num_damaged += num

    def _store_chunk(
        self, parent: Chunk[StoredRecord] | None, chunk: Chunk[Record], ttl: float, deadline: float | None
    ) -> Chunk[StoredRecord] | None:
        held = self.index.covering(chunk.namespace, parent, chunk.tokens, chunk.salts)
        if held is None:
            held = self._add_chunk(parent, chunk, ttl, deadline)
        if held is not None:
            for state in chunk.checkpoints:
                if not held.has_checkpoint_at(state.position):
                    self._add_state(held, state, deadline)
            if chunk.is_pinned:
                self.index.pin(held.key)
        return held if held is not None and self.index.contains(held) else None

    def _add_chunk(
        self, parent: Chunk[StoredRecord] | None, chunk: Chunk[Record], ttl: float, deadline: float | None
    ) -> Chunk[StoredRecord] | None:
        stored = self._prepare(_joined_record(chunk), chunk.key, chunk.key, None, deadline)
        if stored is None:
            return None
        if parent is not None and not self.index.contains(parent):
            # Making room has taken it.
            self._allocator.release(stored)
            return None
        held = self.index.publish(
            chunk.namespace,
            parent,
            chunk.tokens,
            stored,
            stored.extent.num_bytes,
            chunk.salts,
            ttl_seconds=ttl,
        )
        if held is None:
            return None
        row = ChunkRow(
            key=chunk.key,
            parent=parent.key if parent is not None else None,
            namespace=chunk.namespace,
            start=chunk.start,
            tokens=chunk.tokens,
            expires_at=held.expires_at,
            is_pinned=held.is_pinned,
            used=self._next_use(),
            salts=chunk.salts,
        )
        self._writer.put(WriteRecord(stored, stored.extent.num_bytes, row))
        inherited = [state.payload for state in held.checkpoints]
        if inherited:
            self._writer.put(ReassignOwner(tuple((record.extent, held.key) for record in inherited)))
        return held

    def _add_state(
        self, held: Chunk[StoredRecord], state: Checkpoint[Record], deadline: float | None
    ) -> None:
        stored = self._prepare(
            state.payload, held.key, name_in_header(held, state.position), state.position, deadline
        )
        # Making room may have taken the chunk itself.
        if stored is None or not self.index.contains(held):
            if stored is not None:
                self._allocator.release(stored)
            return
        self._writer.put(WriteRecord(stored, stored.extent.num_bytes, None))
        self.index.add_checkpoint(held, Checkpoint(state.position, stored, stored.extent.num_bytes))

    def _prepare(
        self, record: Record, key: Key, name: Key, position: int | None, deadline: float | None
    ) -> StoredRecord | None:
        """Turn a record of the chunk with this key into bytes, with a name in its header, and find room for
        them.
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
        most = max(0, _MAX_PENDING_BYTES - num_bytes)
        if self._writer.num_pending_bytes <= most:
            return True
        return deadline is not None and self._writer.wait_below(most, deadline=deadline)

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
        self._renewed_at = self._clock()
        self._has_unsaved_changes = False
        return True

    def _next_use(self) -> int:
        self._num_uses += 1
        return self._num_uses


def _joined_record(chunk: Chunk[Record]) -> Record:
    return join_records([payload for _, payload in chunk.payloads()])
