"""Downloads of other processes: each process writes its own to a file.

Any thread; methods read and write files, so never call them on the event loop.
"""

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

DownloadState = Literal["waiting", "running", "done", "failed", "cancelled"]
"""State of a download, and of the probe after it."""

JOURNAL_SECONDS = 1.0
"""How often a process writes its downloads while one is running."""

# A file that was not written for this time belongs to a process that has ended.
_LOST_SECONDS = 15.0
_REMEMBERED_SECONDS = 86_400.0
_MAX_FILES = 64
_MAX_FILE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """The state of a download.

    `num_bytes_total` and `num_files_total` are None until the hub has answered. `current_file` is the first
    missing file by name; several are downloaded at once. `error` is one line. Times are in unix seconds.
    `pid` is the process that downloads. `probe` is the state of probing the model after the download, None
    where that was not requested, and `probe_error` one line.
    """

    repository: str
    state: DownloadState = "waiting"
    num_bytes: int = 0
    num_bytes_total: int | None = None
    num_files: int = 0
    num_files_total: int | None = None
    current_file: str | None = None
    bytes_per_second: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None
    path: Path | None = None
    error: str | None = None
    probe: DownloadState | None = None
    probe_error: str | None = None
    pid: int = field(default_factory=os.getpid)

    @property
    def is_over(self) -> bool:
        """Whether it has ended, successfully or not."""
        return self.state in ("done", "failed", "cancelled")

    def without_probe(self) -> "Download":
        """Return the download with an unfinished probe cancelled."""
        return replace(self, probe="cancelled") if self.probe in ("waiting", "running") else self


class _ProcessFile(Struct, frozen=True, kw_only=True):
    """The downloads of one process into one cache."""

    cache: str
    written_at: float
    downloads: list[Download]


def _decode_path(kind: type[Any], value: object) -> Path:
    if kind is not Path or not isinstance(value, str):
        raise TypeError("only paths are encoded as text")
    return Path(value)


_ENCODER = msgspec.json.Encoder(enc_hook=str)
_DECODER = msgspec.json.Decoder(_ProcessFile, dec_hook=_decode_path)


class DownloadJournal:
    """A directory with one file per process that downloads.

    Only downloads into `cache` are read. It is best effort: a file that cannot be written is left out, and
    one that cannot be read is skipped.
    """

    def __init__(self, directory: Path, cache: Path) -> None:
        self._directory = directory
        self._cache = str(cache)
        self._lock = threading.Lock()

    def write(self, downloads: Sequence[Download]) -> None:
        """Replace this process's file."""
        self._replace(self._own_file, time.time(), downloads)

    def others(self) -> list[Download]:
        """Return the downloads of other processes.

        Unfinished ones of a process that has ended have failed.
        """
        return [download for _, _, downloads in self._read_others() for download in downloads]

    def forget(self, repository: str) -> None:
        """Remove downloads of other processes that have ended.

        A process that still runs lists its own again when it writes its file.
        """
        for file, written_at, downloads in self._read_others():
            kept = [each for each in downloads if each.repository != repository or not each.is_over]
            if len(kept) < len(downloads):
                self._replace(file, written_at, kept)

    def _read_others(self) -> Iterator[tuple[Path, float, list[Download]]]:
        """Yield other processes' files, the times of writing, and the downloads."""
        now = time.time()
        for file in self._files(now):
            with suppress(OSError, msgspec.DecodeError):
                content = _DECODER.decode(_read(file))
                if content.cache != self._cache:
                    continue
                is_lost = now - content.written_at > _LOST_SECONDS
                downloads = [
                    _ended(download, content.written_at) if is_lost else download
                    for download in content.downloads
                ]
                yield file, content.written_at, downloads

    def _replace(self, file: Path, written_at: float, downloads: Sequence[Download]) -> None:
        content = _ENCODER.encode(
            _ProcessFile(cache=self._cache, written_at=written_at, downloads=list(downloads))
        )
        # A full or read-only disk must not end a download.
        with self._lock, suppress(OSError):
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary = self._directory / f".{os.getpid()}.tmp"
            temporary.write_bytes(content)
            temporary.replace(file)

    @property
    def _own_file(self) -> Path:
        return self._directory / f"{os.getpid()}.json"

    def _files(self, now: float) -> list[Path]:
        """Return the newest files of other processes, and delete old ones."""
        written: list[tuple[float, Path]] = []
        for file in filter(Path.is_file, self._directory.glob("*.json")):
            with suppress(OSError):
                written.append((file.stat().st_mtime, file))
        kept: list[Path] = []
        for written_at, file in sorted(written, reverse=True):
            if len(kept) >= _MAX_FILES or now - written_at > _REMEMBERED_SECONDS:
                with suppress(OSError):
                    file.unlink()
            elif file != self._own_file:
                kept.append(file)
        return kept


def _read(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.read(_MAX_FILE_BYTES)


def _ended(download: Download, written_at: float) -> Download:
    """Return a download of an ended process; unfinished ones have failed."""
    download = download.without_probe()
    if download.is_over:
        return download
    message = "its process ended before it was complete; complete files are kept"
    return replace(download, state="failed", ended_at=written_at, bytes_per_second=0.0, error=message)
