"""The thread that reads records ahead of those who wait for them. Knows neither mlx nor the index."""

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlxctl.prefix_cache.disk.segments import SegmentFiles
from mlxctl.prefix_cache.disk.stored import StoredRecord, digest_of

# Records that may lie ready: the reader waits for the engine's thread to take them, so that memory stays
# bounded.
_MAX_READY = 8


@dataclass(slots=True, eq=False)
class Fetch:
    """Records that somebody waits for, in the order in which they are wanted."""

    records: Sequence[StoredRecord]
    is_cancelled: bool = False


@dataclass(frozen=True, slots=True)
class FetchedRecord:
    """One record of a fetch has come: its bytes, or why there are none; then nothing more of that fetch
    comes.
    """

    fetch: Fetch
    place: int
    data: bytes = b""
    failure: str | None = None


class Reader:
    """Reads one fetch after the other and calls `wake`, from its own thread, whenever something can be taken."""

    def __init__(self, files: SegmentFiles, wake: Callable[[], None]) -> None:
        self._files = files
        self._wake = wake
        self._fetches: queue.SimpleQueue[Fetch | None] = queue.SimpleQueue()
        self._ready: queue.Queue[FetchedRecord] = queue.Queue(_MAX_READY)
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="prefix-reader", daemon=True)
        self._thread.start()

    def put(self, fetch: Fetch) -> None:
        """Read this after everything else."""
        self._fetches.put(fetch)

    def take(self) -> list[FetchedRecord]:
        """Return what has come, without waiting."""
        arrived = []
        while not self._ready.empty():
            arrived.append(self._ready.get_nowait())
        return arrived

    def close(self) -> None:
        """End the thread; whoever still waits gets nothing."""
        self._is_closing = True
        self._fetches.put(None)
        while self._thread.is_alive():
            self.take()
            self._thread.join(0.01)

    def _run(self) -> None:
        while (fetch := self._fetches.get()) is not None:
            for place, stored in enumerate(fetch.records):
                if fetch.is_cancelled or self._is_closing:
                    break
                arrival = self._read(fetch, place, stored)
                self._ready.put(arrival)
                self._wake()
                if arrival.failure is not None:
                    break

    def _read(self, fetch: Fetch, place: int, stored: StoredRecord) -> FetchedRecord:
        pieces = stored.pieces
        if pieces is not None:
            return FetchedRecord(fetch, place, b"".join(pieces))
        try:
            data = self._files.read(stored.extent)
        except (OSError, MemoryError) as error:
            return FetchedRecord(fetch, place, failure=str(error))
        if not stored.is_checked and digest_of([data]) != stored.digest:
            return FetchedRecord(
                fetch, place, failure=f"segment {stored.extent.segment} is damaged at {stored.extent.offset}"
            )
        stored.is_checked = True
        return FetchedRecord(fetch, place, data)
