"""Writer thread: writes records and manifest rows in job order.

That order makes a kill at any moment harmless: a row is added after its record was written, and deleted
before its extent is used again. Knows neither MLX nor the index.
"""

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass
from queue import SimpleQueue

from mlxctl.ir.errors import StoreError
from mlxctl.prefix_cache.chunks import Key
from mlxctl.prefix_cache.disk.manifest import ChunkRow, Manifest, RecordRow
from mlxctl.prefix_cache.disk.segments import SegmentFiles
from mlxctl.prefix_cache.disk.space import Extent
from mlxctl.prefix_cache.disk.stored import StoredRecord, digest_of
from mlxctl.state.stores.damage import is_damage

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WriteRecord:
    """Write a record, and its chunk's row if the chunk is new."""

    stored: StoredRecord
    num_bytes: int
    chunk: ChunkRow | None


@dataclass(frozen=True, slots=True)
class RemoveRows:
    """Delete the rows of records and chunks."""

    extents: tuple[Extent, ...]
    chunks: tuple[Key, ...] = ()


@dataclass(frozen=True, slots=True)
class TruncateSegment:
    """Truncate a segment file; size 0 deletes it."""

    segment: int
    size: int


@dataclass(frozen=True, slots=True)
class UpdateChunks:
    """Update expiry, pin and order of use of chunks."""

    chunks: tuple[tuple[Key, float, bool, int], ...]


@dataclass(frozen=True, slots=True)
class ReassignOwner:
    """Assign states to other chunks."""

    states: tuple[tuple[Extent, Key], ...]


@dataclass(frozen=True, slots=True)
class SetModelName:
    """Store the display name of a namespace's model."""

    namespace: bytes
    model: str


Job = WriteRecord | RemoveRows | TruncateSegment | UpdateChunks | ReassignOwner | SetModelName


# Bound of failed removals; on a full disk they are tried again after a file was truncated.
_MAX_POSTPONED = 10_000


class Writer:
    """Job queue and the thread that processes it.

    `failed` collects records that could not be written. A damaged manifest is renamed and replaced by an
    empty one, which lists none of the earlier records; then `has_lost_manifest` is set, and the reader of the
    flag resets it.
    """

    def __init__(self, files: SegmentFiles, manifest: Manifest) -> None:
        self._files = files
        self._manifest = manifest
        self._postponed: deque[RemoveRows] = deque(maxlen=_MAX_POSTPONED)
        self.has_lost_manifest = False
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._drained = threading.Condition()
        self._num_pending_bytes = 0
        self._num_failures = 0
        self.failed: deque[StoredRecord] = deque()
        self._thread = threading.Thread(target=self._run, name="prefix-writer", daemon=True)
        self._thread.start()

    @property
    def num_pending_bytes(self) -> int:
        """Bytes of records that are not written yet."""
        return self._num_pending_bytes

    def put(self, *jobs: Job) -> None:
        """Queue jobs for the thread."""
        for job in jobs:
            if isinstance(job, WriteRecord):
                with self._drained:
                    self._num_pending_bytes += job.num_bytes
            self._jobs.put(job)

    def wait_below(self, num_bytes: int, *, deadline: float) -> bool:
        """Wait until at most `num_bytes` are unwritten.

        Returns False at the deadline. `deadline` is on the monotonic clock.
        """
        with self._drained:
            remaining = deadline - time.monotonic()
            return self._drained.wait_for(
                lambda: self._num_pending_bytes <= num_bytes, timeout=max(0.0, remaining)
            )

    def close(self, *, deadline: float) -> None:
        """Process the queue until the deadline, then end.

        What is not written by then is a later miss.
        """
        self._jobs.put(None)
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if not self._thread.is_alive():
            self._manifest.close()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._try(job)
            if isinstance(job, WriteRecord):
                with self._drained:
                    self._num_pending_bytes -= job.num_bytes
                    self._drained.notify_all()
        self._try_postponed()

    def _try(self, job: Job) -> None:
        try:
            self._do(job)
            if isinstance(job, TruncateSegment):
                self._try_postponed()
        except Exception as error:
            # The thread must survive any bad file: the MLX thread waits for it.
            self._on_failure(job, error)

    def _try_postponed(self) -> None:
        for _ in range(len(self._postponed)):
            self._try(self._postponed.popleft())

    def _do(self, job: Job) -> None:
        match job:
            case WriteRecord():
                self._write(job)
            case RemoveRows():
                self._manifest.remove(job.extents, job.chunks)
            case TruncateSegment():
                self._files.shorten(job.segment, job.size)
            case UpdateChunks():
                self._manifest.update_chunks(job.chunks)
            case ReassignOwner():
                self._manifest.reassign_owners(job.states)
            case SetModelName():
                self._manifest.set_model_name(job.namespace, job.model)

    def _write(self, job: WriteRecord) -> None:
        stored = job.stored
        assert stored.pieces is not None, "a record is written once"
        digest = digest_of(stored.pieces)
        self._files.write(stored.extent, stored.pieces)
        row = RecordRow(extent=stored.extent, digest=digest, chunk=stored.chunk, position=stored.position)
        self._manifest.add(row, job.chunk)
        stored.digest = digest
        stored.pieces = None

    def _on_failure(self, job: Job, error: Exception) -> None:
        self._num_failures += 1
        if self._num_failures == 1:
            _log.warning(
                "prefix cache: writing to disk failed (%s); the record is dropped; logged only this once",
                error,
            )
        if isinstance(job, WriteRecord):
            self.failed.append(job.stored)
        if is_damage(error):
            self._replace_manifest(error)
        elif isinstance(job, RemoveRows):
            self._postponed.append(job)

    def _replace_manifest(self, error: Exception) -> None:
        try:
            self._manifest = self._manifest.replaced(error)
            self.has_lost_manifest = True
        except StoreError as failure:
            _log.warning("prefix cache: nothing more is written to disk: %s", failure)
