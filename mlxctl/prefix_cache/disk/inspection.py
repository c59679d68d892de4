"""Read-only view of the disk tier, also while a server uses it.

Knows no MLX, so that CLI commands need not load it.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mlxctl.ir.errors import StoreError
from mlxctl.ir.tokens import Salt
from mlxctl.prefix_cache.chunks import Key, chunk_key, root_key, state_key
from mlxctl.prefix_cache.disk.directory import MANIFEST, tier_directory
from mlxctl.prefix_cache.disk.header import DamagedRecordError, ForeignRecordError, read_header
from mlxctl.prefix_cache.disk.loading import is_valid_chunk_row, is_valid_record_row
from mlxctl.prefix_cache.disk.manifest import ChunkRow, Manifest, RecordRow
from mlxctl.prefix_cache.disk.segments import SegmentFiles
from mlxctl.prefix_cache.disk.stored import digest_of

Problem = Literal["truncated", "damaged", "foreign", "missing", "orphan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskEntry:
    """A chunk on disk, with its records.

    `key` names it and everything before it; `positions` are those of its states; `num_bytes` counts both.
    `model` is the name under which its model was served last. `expires_at` is in unix seconds, None for
    never; `used` orders entries by last use.
    """

    key: Key
    parent: Key | None
    model: str | None
    namespace: bytes
    start: int
    end: int
    tokens: bytes
    salts: tuple[Salt, ...]
    num_bytes: int
    positions: tuple[int, ...]
    expires_at: float | None
    is_pinned: bool
    used: int
    records: tuple[RecordRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFinding:
    """One defect of the disk tier.

    A record cut off, damaged, foreign or missing, or an orphan chunk. `key` is empty where a manifest row is
    unreadable. Defects are harmless: each is a miss when it is read, and is removed then or by the next
    collection.
    """

    problem: Problem
    key: Key
    position: int | None
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSizes:
    """Bytes of records and of segment files, numbers of chunks and states."""

    record_bytes: int
    file_bytes: int
    num_chunks: int
    num_states: int


class DiskInspector:
    """The disk tier in a cache directory; every call reads it."""

    def __init__(self, manifest: Manifest, files: SegmentFiles) -> None:
        self._manifest = manifest
        self._files = files

    @classmethod
    def open(cls, cache_directory: Path) -> "DiskInspector":
        """Open the disk tier.

        Raises StoreError if there is none or it is unreadable.
        """
        path = tier_directory(cache_directory)
        if not (path / MANIFEST).is_file():
            raise StoreError(f"there is no prefix cache in {str(cache_directory)!r}")
        return cls(Manifest.read_only(path / MANIFEST), SegmentFiles(path))

    def close(self) -> None:
        self._manifest.close()

    def entries(self) -> list[DiskEntry]:
        """Return all chunks, the least recently used first."""
        models = self._manifest.models()
        records: dict[Key, list[RecordRow]] = {}
        rows, records_found = self._manifest.rows()
        for record in filter(is_valid_record_row, records_found):
            records.setdefault(record.chunk, []).append(record)
        return [
            DiskEntry(
                key=row.key,
                parent=row.parent,
                model=models.get(row.namespace),
                namespace=row.namespace,
                start=row.start,
                end=row.start + len(row.tokens) // 4,
                tokens=row.tokens,
                salts=row.salts or (),
                num_bytes=sum(record.extent.num_bytes for record in records.get(row.key, ())),
                positions=tuple(
                    sorted(
                        record.position for record in records.get(row.key, ()) if record.position is not None
                    )
                ),
                expires_at=None if row.expires_at == math.inf else row.expires_at,
                is_pinned=row.is_pinned,
                used=row.used,
                records=tuple(records.get(row.key, ())),
            )
            for row in rows
            if is_valid_chunk_row(row)
        ]

    def sizes(self) -> DiskSizes:
        """Return sizes by the manifest and by the files."""
        records = list(filter(is_valid_record_row, self._manifest.records()))
        return DiskSizes(
            record_bytes=sum(record.extent.num_bytes for record in records),
            file_bytes=sum(self._files.sizes().values()),
            num_chunks=sum(record.position is None for record in records),
            num_states=sum(record.position is not None for record in records),
        )

    def verify(self, on_read: Callable[[int], object] | None = None) -> list[DiskFinding]:
        """Read every record and return all defects.

        `on_read` receives the number of record bytes read so far. A server may write meanwhile; since a row
        is deleted before its extent is used again, a failed record is a defect only if its row is still there
        afterwards.
        """
        rows, records = self._manifest.rows()
        chunks = {row.key: row for row in rows}
        sizes = self._files.sizes()
        whole = {record.chunk for record in records if record.position is None}
        suspects, num_bytes = [], 0
        for record in records:
            if self._check(record, _name_in_header(record, chunks.get(record.chunk)), sizes) is not None:
                suspects.append(record)
            num_bytes += record.extent.num_bytes if is_valid_record_row(record) else 0
            if on_read is not None:
                on_read(num_bytes)
        findings = self._check_again(suspects, chunks)
        return findings + [finding for row in chunks.values() for finding in _check_row(row, chunks, whole)]

    def _check_again(self, suspects: list[RecordRow], chunks: Mapping[Key, ChunkRow]) -> list[DiskFinding]:
        """Return defects that a second read confirms.

        Their rows must exist before and after it.
        """
        before, sizes = set(self._manifest.records()), self._files.sizes()
        names = {
            record: _name_in_header(record, chunks.get(record.chunk))
            for record in suspects
            if record in before
        }
        results = [(record, self._check(record, name, sizes)) for record, name in names.items()]
        after = set(self._manifest.records()) if results else set()
        return [finding for record, finding in results if finding is not None and record in after]

    def read(self, entry: DiskEntry) -> dict[int | None, bytes]:
        """Return the intact records of a chunk by position.

        Position None is its keys and values.
        """
        sizes = self._files.sizes()
        results = (
            (record.position, self._read(record, _name_in_header(record, entry), sizes))
            for record in entry.records
        )
        return {position: data for position, data in results if isinstance(data, bytes)}

    def _check(self, record: RecordRow, name: Key, sizes: Mapping[int, int]) -> DiskFinding | None:
        results = self._read(record, name, sizes)
        return results if isinstance(results, DiskFinding) else None

    def _read(self, record: RecordRow, name: Key, sizes: Mapping[int, int]) -> bytes | DiskFinding:
        if not is_valid_record_row(record):
            return DiskFinding(
                problem="damaged", key=b"", position=None, detail="a row of the manifest is invalid"
            )
        extent = record.extent
        problem: Problem = "damaged"
        detail = "its bytes do not match its digest"
        if extent.segment not in sizes:
            problem, detail = "missing", "the file is missing"
        elif extent.end > sizes[extent.segment]:
            # Checked before the read: a row may contain any length.
            problem, detail = (
                "truncated",
                f"the file ends at {sizes[extent.segment]}, the record at {extent.end}",
            )
        else:
            try:
                data = self._files.read(extent)
                read_header(data, chunk=name, position=record.position)
                if digest_of([data]) == record.digest:
                    return data
            except OSError as error:
                problem, detail = "missing", error.strerror or str(error)
            except ForeignRecordError as error:
                problem, detail = "foreign", str(error)
            except DamagedRecordError as error:
                detail = str(error)
        location = f"segment {extent.segment} at {extent.offset}"
        return DiskFinding(
            problem=problem, key=record.chunk, position=record.position, detail=f"{location}: {detail}"
        )


def _name_in_header(record: RecordRow, row: ChunkRow | DiskEntry | None) -> Key:
    if record.position is None or row is None or (isinstance(row, ChunkRow) and not is_valid_chunk_row(row)):
        return record.chunk
    above = row.parent or root_key(row.namespace)
    return state_key(above, row.tokens, record.position - row.start, row.salts or (), start=row.start)


def _check_row(
    row: ChunkRow, chunks: Mapping[Key, ChunkRow], whole: AbstractSet[Key]
) -> Iterator[DiskFinding]:
    if not is_valid_chunk_row(row):
        yield DiskFinding(
            problem="damaged", key=b"", position=None, detail="a row of the manifest is invalid"
        )
        return
    if row.key not in whole:
        yield DiskFinding(
            problem="missing", key=row.key, position=None, detail="there is no record of the chunk"
        )
    if row.parent is not None and row.parent not in chunks:
        yield DiskFinding(problem="orphan", key=row.key, position=None, detail="its parent is missing")
    elif (
        chunk_key(row.parent or root_key(row.namespace), row.tokens, row.salts or (), start=row.start)
        != row.key
    ):
        yield DiskFinding(
            problem="damaged",
            key=row.key,
            position=None,
            detail="its tokens do not match its key",
        )
