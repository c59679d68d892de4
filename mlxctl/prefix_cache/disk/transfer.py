"""Export of a cache directory into an archive, and import.

Knows no MLX.
"""

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from mlxctl.ir.errors import StoreError
from mlxctl.prefix_cache.chunks import Key
from mlxctl.prefix_cache.disk.archive import ArchiveError, ArchiveWriter, ChunkFrame, StateFrame, read_archive
from mlxctl.prefix_cache.disk.directory import ClaimedDirectory, claim_directory
from mlxctl.prefix_cache.disk.importer import ArchiveImporter, ImportOutcome
from mlxctl.prefix_cache.disk.inspection import DiskEntry, DiskInspector
from mlxctl.prefix_cache.disk.stored import digest_of
from mlxctl.state.stores.damage import DATABASE_ERRORS

ProgressCallback = Callable[[int, int], object]
"""Receives the number of bytes done and in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """Records and bytes in an archive, and records left out.

    Those were damaged or deleted meanwhile.
    """

    num_records: int
    num_bytes: int
    num_left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """Numbers of records imported, stored already, and without room."""

    num_taken: int
    num_known: int
    num_without_room: int


def export_archive(cache_directory: Path, file: Path, on_progress: ProgressCallback) -> Exported:
    """Write all intact records into a new file with mode 0600.

    The file appears when it is complete. A server may be using the directory. Raises StoreError.
    """
    inspector = DiskInspector.open(cache_directory)
    try:
        with _atomic_file(file) as opened:
            return _export(inspector, ArchiveWriter(opened), on_progress)
    except DATABASE_ERRORS as error:
        raise StoreError(f"cannot read the prefix cache in {str(cache_directory)!r}: {error}") from error
    except OSError as error:
        raise StoreError(f"cannot write {str(file)!r}: {error.strerror or error}") from error
    finally:
        inspector.close()


def import_archive(
    cache_directory: Path, file: Path, *, max_bytes: int, min_free_bytes: int, on_progress: ProgressCallback
) -> Imported:
    """Import an archive, after a check of all of it.

    Nothing stored is evicted. Raises StoreError.
    """
    try:
        with file.open("rb") as opened:
            size = os.fstat(opened.fileno()).st_size
            for _ in read_archive(opened):
                on_progress(opened.tell(), 2 * size)
            with _claimed(cache_directory) as directory:
                importer = ArchiveImporter(directory, max_bytes=max_bytes, min_free_bytes=min_free_bytes)
                return _import(importer, opened, lambda num_done: on_progress(size + num_done, 2 * size))
    except ArchiveError as error:
        raise StoreError(f"{str(file)!r} is not taken: {error}") from error
    except DATABASE_ERRORS as error:
        raise StoreError(f"cannot write into {str(cache_directory)!r}: {error}") from error
    except OSError as error:
        raise StoreError(f"cannot import {str(file)!r}: {error.strerror or error}") from error


@contextmanager
def _claimed(cache_directory: Path) -> Iterator[ClaimedDirectory]:
    directory = claim_directory(cache_directory)
    try:
        yield directory
    finally:
        directory.manifest.close()
        directory.lock.release()


def _export(inspector: DiskInspector, writer: ArchiveWriter, on_progress: ProgressCallback) -> Exported:
    now, total = time.time(), inspector.sizes().record_bytes
    written: set[Key] = set()
    num_left_out = num_done = 0
    # In order of position, so that a parent comes before its children.
    for entry in sorted(inspector.entries(), key=lambda entry: entry.start):
        num_done += entry.num_bytes
        if entry.expires_at is not None and entry.expires_at <= now:
            continue
        records = inspector.read(entry) if entry.parent is None or entry.parent in written else {}
        num_before = writer.num_records
        if None in records:
            written.add(entry.key)
            _add(writer, entry, records, now)
        num_left_out += len(entry.records) - (writer.num_records - num_before)
        on_progress(num_done, total)
    writer.end()
    return Exported(num_records=writer.num_records, num_bytes=writer.num_bytes, num_left_out=num_left_out)


def _add(writer: ArchiveWriter, entry: DiskEntry, records: dict[int | None, bytes], now: float) -> None:
    data = records.pop(None)
    chunk = ChunkFrame(
        key=entry.key,
        parent=entry.parent,
        namespace=entry.namespace,
        model=entry.model,
        start=entry.start,
        tokens=entry.tokens,
        salts=entry.salts,
        ttl_seconds=None if entry.expires_at is None else entry.expires_at - now,
        is_pinned=entry.is_pinned,
        used=entry.used,
        num_bytes=len(data),
        digest=digest_of([data]),
    )
    writer.add(chunk, data)
    for position, state in records.items():
        assert position is not None, "one record is the chunk's"
        writer.add(
            StateFrame(chunk=entry.key, position=position, num_bytes=len(state), digest=digest_of([state])),
            state,
        )


def _import(importer: ArchiveImporter, file: IO[bytes], on_progress: Callable[[int], object]) -> Imported:
    outcomes: Counter[ImportOutcome] = Counter()
    for frame, data in read_archive(file):
        outcomes[importer.take(frame, data)] += 1
        on_progress(file.tell())
    importer.finish()
    return Imported(
        num_taken=outcomes["imported"], num_known=outcomes["stored"], num_without_room=outcomes["no_room"]
    )


@contextmanager
def _atomic_file(file: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that is renamed to `file` when complete."""
    if file.exists():
        raise StoreError(f"{str(file)!r} is there already")
    # SEC: the archive contains prompts; NamedTemporaryFile creates it with mode 0600.
    with tempfile.NamedTemporaryFile(dir=file.parent, prefix=f".{file.name}.", delete=False) as opened:
        part = Path(opened.name)
        try:
            yield opened
            opened.flush()
            os.fsync(opened.fileno())
            part.replace(file)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
