"""Reader thread: reads records for promotions. Knows neither MLX nor the index."""

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlxctl.prefix_cache.disk.segments import SegmentFiles
from mlxctl.prefix_cache.disk.stored import StoredRecord, digest_of

# Bound of records read ahead: the reader waits until the MLX thread has taken some.
_MAX_READY = 8


@dataclass(slots=True, eq=False)
class Fetch:
    """Records to read, in this order."""

    records: Sequence[StoredRecord]
    is_cancelled: bool = False


@dataclass(frozen=True, slots=True)
class FetchedRecord:
    """One record of a fetch.

    Its bytes, or the error that ended the fetch.
    """

    fetch: Fetch
    index: int
    data: bytes = b""
    failure: str | None = None


class Reader:
    """Reads one fetch after the other.

    `wake` is called from the reader thread whenever `take` has something to return.
    """

    def __init__(self, files: SegmentFiles, wake: Callable[[], None]) -> None:
        self._files = files
        self._wake = wake
        self._fetches: queue.SimpleQueue[Fetch | None] = queue.SimpleQueue()
        self._ready: queue.Queue[FetchedRecord] = queue.Queue(_MAX_READY)
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="prefix-reader", daemon=True)
        self._thread.start()

    def put(self, fetch: Fetch) -> None:
        """Queue a fetch for the thread."""
        self._fetches.put(fetch)

    def take(self) -> list[FetchedRecord]:
        """Return the records read since the last call, without waiting."""
        fetched = []
        while not self._ready.empty():
            fetched.append(self._ready.get_nowait())
        return fetched

    def close(self) -> None:
        """End the thread; queued fetches are dropped."""
        self._is_closing = True
        self._fetches.put(None)
        while self._thread.is_alive():
            self.take()
            self._thread.join(0.01)

    def _run(self) -> None:
        while (fetch := self._fetches.get()) is not None:
            for index, stored in enumerate(fetch.records):
                if fetch.is_cancelled or self._is_closing:
                    break
                fetched = self._read(fetch, index, stored)
                self._ready.put(fetched)
                self._wake()
                if fetched.failure is not None:
                    break

    def _read(self, fetch: Fetch, index: int, stored: StoredRecord) -> FetchedRecord:
        pieces = stored.pieces
        if pieces is not None:
            return FetchedRecord(fetch, index, b"".join(pieces))
        try:
            data = self._files.read(stored.extent)
        except (OSError, MemoryError) as error:
            return FetchedRecord(fetch, index, failure=str(error))
        if not stored.is_checked and digest_of([data]) != stored.digest:
            return FetchedRecord(
                fetch, index, failure=f"segment {stored.extent.segment} is damaged at {stored.extent.offset}"
            )
        stored.is_checked = True
        return FetchedRecord(fetch, index, data)
