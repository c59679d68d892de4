"""Disk tier: records evicted from memory, kept for a later restore.

MLX thread only.

- A second index of the same kind lists what is on disk; its payloads are extents of segment files.
- A leaf that is evicted from memory is written with its ancestors, as far as they are not on disk yet.
  Records that were promoted to memory stay on disk, so their next eviction writes nothing.
- A failure in this package is a miss, logged once.
"""

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from mlxctl.ir.errors import StoreError
from mlxctl.prefix_cache.chunks import Key
from mlxctl.prefix_cache.disk.directory import MANIFEST, ClaimedDirectory, claim_directory
from mlxctl.prefix_cache.disk.reader import Fetch, FetchedRecord, Reader
from mlxctl.prefix_cache.disk.record_store import DEFAULT_TTL_SECONDS, RecordStore
from mlxctl.prefix_cache.disk.stored import StoredRecord
from mlxctl.prefix_cache.disk.writer import ReassignOwner, SetModelName, UpdateChunks
from mlxctl.prefix_cache.entries import Chunk
from mlxctl.prefix_cache.packing import Record
from mlxctl.state.stores.damage import remove_set_aside

_SAVE_USAGE_SECONDS = 60.0

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
        self._directory = directory
        self._clock = clock
        self._models = directory.manifest.models()
        self._usage_saved_at = clock()
        self._store = RecordStore(
            directory,
            max_bytes=max_bytes,
            min_free_bytes=min_free_bytes,
            ttl_seconds=ttl_seconds,
            clock=clock,
        )
        self._writer = self._store.writer
        self._reader = Reader(directory.files, wake)
        self.index = self._store.index

    @classmethod
    def open(
        cls,
        cache_directory: Path,
        *,
        max_bytes: int,
        min_free_bytes: int,
        ttl_seconds: float = DEFAULT_TTL_SECONDS,
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
    def ttl_seconds(self) -> float:
        """Time to live of records whose entries have none."""
        return self._store.ttl_seconds

    @ttl_seconds.setter
    def ttl_seconds(self, seconds: float) -> None:
        self._store.ttl_seconds = seconds

    @property
    def file_bytes(self) -> int:
        """Length of all segment files together."""
        return self._store.num_file_bytes

    @property
    def max_bytes(self) -> int:
        """Limit of the records' bytes."""
        return self.index.max_bytes

    @property
    def num_skipped(self) -> int:
        """Chunks not written, for lack of space or time."""
        return self._store.num_skipped

    @property
    def num_damaged(self) -> int:
        """Records that were unusable."""
        return self._store.num_damaged

    def store(self, chunk: Chunk[Record], *, deadline: float | None = None) -> bool:
        """Write a chunk with its ancestors and states; see `RecordStore.store`."""
        return self._store.store(chunk, deadline=deadline)

    def invalidate(self, chunk: Chunk[StoredRecord], position: int | None, reason: str) -> None:
        """Drop an unusable record; see `RecordStore.invalidate`."""
        self._store.invalidate(chunk, position, reason)

    @property
    def model_names(self) -> dict[bytes, str]:
        """The display names of models by namespace, also of earlier runs."""
        return self._models

    def set_model_name(self, namespace: bytes, model: str) -> None:
        """Store the display name of a namespace's model."""
        if self._models.get(namespace) != model:
            self._models[namespace] = model
            self._writer.put(SetModelName(namespace, model))

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
            self._store.has_unsaved_uses = True

    def maintain(self) -> None:
        """Drop expired and unwritten records, enforce limits, save usage.

        Cheap; called while the engine is idle.
        """
        self._store.drop_unwritten()
        self.index.expire()
        self._store.enforce_limits()
        if self._store.has_unsaved_uses and self._clock() - self._usage_saved_at > _SAVE_USAGE_SECONDS:
            self._save_usage()

    def close(self, *, deadline: float) -> None:
        """Write the queued records and unlock the directory.

        Writing ends at `deadline` on the monotonic clock.
        """
        self._directory.lock.announce_release()
        self._reader.close()
        self._store.drop_unwritten()
        owners = [(state.payload, chunk) for chunk in self.index.chunks() for state in chunk.checkpoints]
        stale = {record: chunk.key for record, chunk in owners if self.index.find(record.chunk) is None}
        self._writer.put(ReassignOwner(tuple((record.extent, key) for record, key in stale.items())))
        self._save_usage()
        self._writer.close(deadline=deadline)
        self._directory.lock.release()

    def _save_usage(self) -> bool:
        rows = (
            (chunk.key, chunk.expires_at, chunk.is_pinned, self._store.next_use())
            for chunk in self.index.chunks()
        )
        self._writer.put(UpdateChunks(tuple(rows)))
        self._usage_saved_at = self._clock()
        self._store.has_unsaved_uses = False
        return True
