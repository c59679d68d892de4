"""A look at the warm tier from outside, beside a server that may be using it: what is there, and whether it
is sound. Read-only.

Knows no mlx, so that the command line can look without loading it.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mlxctl.errors import StoreError
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
    """A chunk on disk: the tokens `start` to `end` of every prompt that begins with it and what is above it.

    `key` names it and everything before it, `positions` are those of its states, `num_bytes` counts both.
    `model` is the name under which the model was served last, or None. `expires_at` is in unix seconds, None
    for never; `used` orders by last use. `records` say where its bytes lie.
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
    """Something wrong: a record that ends early, whose bytes are not what they were, that is another one or
    another version's, that is not there, or that builds on nothing. `key` is empty where a row says nothing.

    None of them does harm: each is a miss when it is met, and goes then, or with the next collection.
    """

    problem: Problem
    key: Key
    position: int | None
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSizes:
    """What the tier takes: bytes of records, of segment files, and how many chunks and states that are."""

    record_bytes: int
    file_bytes: int
    num_chunks: int
    num_states: int


class DiskInspector:
    """The tier below a cache directory, as its manifest and its files are at the moment of each call."""

    def __init__(self, manifest: Manifest, files: SegmentFiles) -> None:
        self._manifest = manifest
        self._files = files

    @classmethod
    def open(cls, cache_directory: Path) -> "DiskInspector":
        """Open it. Raises StoreError when there is none, or when it cannot be read."""
        path = tier_directory(cache_directory)
        if not (path / MANIFEST).is_file():
            raise StoreError(f"there is no prefix cache in {str(cache_directory)!r}")
        return cls(Manifest.read_only(path / MANIFEST), SegmentFiles(path))

    def close(self) -> None:
        """Close the manifest."""
        self._manifest.close()

    def entries(self) -> list[DiskEntry]:
        """Every chunk, the least recently used first."""
        models = self._manifest.models()
        records: dict[Key, list[RecordRow]] = {}
        rows, found = self._manifest.rows()
        for record in filter(is_valid_record_row, found):
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
        """What it takes, by the manifest and by the files."""
        records = list(filter(is_valid_record_row, self._manifest.records()))
        return DiskSizes(
            record_bytes=sum(record.extent.num_bytes for record in records),
            file_bytes=sum(self._files.sizes().values()),
            num_chunks=sum(record.position is None for record in records),
            num_states=sum(record.position is not None for record in records),
        )

    def verify(self, on_read: Callable[[int], object] | None = None) -> list[DiskFinding]:
        """Read every record and return what is wrong; `on_read` hears how many bytes of records are done.

        A server may write meanwhile: a row goes before its room is used again, so what fails counts only if
        its row is still there.
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
        """Return what is wrong with those whose rows were there before and after they were read once more."""
        before, sizes = set(self._manifest.records()), self._files.sizes()
        names = {
            record: _name_in_header(record, chunks.get(record.chunk))
            for record in suspects
            if record in before
        }
        found = [(record, self._check(record, name, sizes)) for record, name in names.items()]
        after = set(self._manifest.records()) if found else set()
        return [finding for record, finding in found if finding is not None and record in after]

    def read(self, entry: DiskEntry) -> dict[int | None, bytes]:
        """Return the sound records of a chunk: its keys and values under None, its states under their
        positions.
        """
        sizes = self._files.sizes()
        found = (
            (record.position, self._read(record, _name_in_header(record, entry), sizes))
            for record in entry.records
        )
        return {position: data for position, data in found if isinstance(data, bytes)}

    def _check(self, record: RecordRow, name: Key, sizes: Mapping[int, int]) -> DiskFinding | None:
        found = self._read(record, name, sizes)
        return found if isinstance(found, DiskFinding) else None

    def _read(self, record: RecordRow, name: Key, sizes: Mapping[int, int]) -> bytes | DiskFinding:
        if not is_valid_record_row(record):
            return DiskFinding(
                problem="damaged", key=b"", position=None, detail="a row of the manifest makes no sense"
            )
        extent = record.extent
        problem: Problem = "damaged"
        detail = "its bytes are not what they were"
        if extent.segment not in sizes:
            problem, detail = "missing", "the file is gone"
        elif extent.end > sizes[extent.segment]:
            # Before it is read: a row may promise any length.
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
        place = f"segment {extent.segment} at {extent.offset}"
        return DiskFinding(
            problem=problem, key=record.chunk, position=record.position, detail=f"{place}: {detail}"
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
            problem="damaged", key=b"", position=None, detail="a row of the manifest makes no sense"
        )
        return
    if row.key not in whole:
        yield DiskFinding(
            problem="missing", key=row.key, position=None, detail="there is no record of the chunk"
        )
    if row.parent is not None and row.parent not in chunks:
        yield DiskFinding(problem="orphan", key=row.key, position=None, detail="what it builds on is gone")
    elif (
        chunk_key(row.parent or root_key(row.namespace), row.tokens, row.salts or (), start=row.start)
        != row.key
    ):
        yield DiskFinding(
            problem="damaged",
            key=row.key,
            position=None,
            detail="its tokens are not those that its key is made of",
        )
