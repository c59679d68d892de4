"""Offline maintenance of the disk tier: collect, pin, drop, clear.

Each function locks the directory while it runs, and raises StoreError if a server uses it.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mlxctl.ir.errors import StoreError
from mlxctl.prefix_cache.chunks import Key
from mlxctl.prefix_cache.disk.directory import MANIFEST, ClaimedDirectory, claim_directory
from mlxctl.prefix_cache.disk.inspection import DiskInspector
from mlxctl.prefix_cache.disk.manifest import discard_manifest
from mlxctl.prefix_cache.disk.tier import DiskTier

_WRITE_SECONDS = 30.0
_UNLIMITED_BYTES = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceResult:
    """Number of chunks changed, and of chunks stored now."""

    num_changed: int
    num_chunks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionResult:
    """Chunks removed and kept, defects found, file bytes before and after."""

    num_changed: int
    num_chunks: int
    num_damaged: int
    bytes_before: int
    bytes_after: int


def collect(cache_directory: Path, *, max_bytes: int, min_free_bytes: int = 0) -> CollectionResult:
    """Remove expired and damaged records, and the least recently used beyond `max_bytes`.

    Raises StoreError if there is no disk tier.
    """
    inspector = DiskInspector.open(cache_directory)
    try:
        findings, sizes = inspector.verify(), inspector.sizes()
    finally:
        inspector.close()
    with _opened(
        claim_directory(cache_directory), max_bytes=max_bytes, min_free_bytes=min_free_bytes
    ) as tier:
        for finding in findings:
            chunk = tier.index.find(finding.key)
            if chunk is not None:
                tier.invalidate(chunk, finding.position, finding.detail)
        after, num_chunks = tier.file_bytes, len(tier.index)
    return CollectionResult(
        num_changed=max(0, sizes.num_chunks - num_chunks),
        num_chunks=num_chunks,
        num_damaged=len(findings),
        bytes_before=sizes.file_bytes,
        bytes_after=after,
    )


def set_pins(cache_directory: Path, keys: Sequence[Key], *, is_pinned: bool) -> MaintenanceResult:
    """Pin or unpin prefixes on disk."""
    with _opened(claim_directory(cache_directory)) as tier:
        num_changed = sum(tier.pin(key) if is_pinned else tier.unpin(key) for key in keys)
        return MaintenanceResult(num_changed=num_changed, num_chunks=len(tier.index))


def drop(cache_directory: Path, keys: Sequence[Key]) -> MaintenanceResult:
    """Remove prefixes with their descendants, except pinned ones."""
    with _opened(claim_directory(cache_directory)) as tier:
        num_changed = sum(tier.index.drop(key) for key in keys)
        return MaintenanceResult(num_changed=num_changed, num_chunks=len(tier.index))


def clear(cache_directory: Path) -> MaintenanceResult:
    """Remove everything that is not pinned."""
    directory = claim_directory(cache_directory)
    rows = directory.manifest.chunks()
    if any(row.is_pinned for row in rows):
        with _opened(directory) as tier:
            tier.clear()
            return MaintenanceResult(num_changed=len(rows) - len(tier.index), num_chunks=len(tier.index))
    # SEC: the rows contain prompts, and SQLite does not overwrite deleted rows.
    _discard(directory)
    return MaintenanceResult(num_changed=len(rows), num_chunks=0)


def _discard(directory: ClaimedDirectory) -> None:
    try:
        directory.manifest.close()
        discard_manifest(directory.path / MANIFEST)
        for number in directory.files.sizes():
            directory.files.shorten(number, 0)
    except OSError as error:
        raise StoreError(f"cannot clear {str(directory.path)!r}: {error.strerror or error}") from error
    finally:
        directory.lock.release()


@contextmanager
def _opened(
    directory: ClaimedDirectory, *, max_bytes: int = _UNLIMITED_BYTES, min_free_bytes: int = 0
) -> Iterator[DiskTier]:
    tier = DiskTier(directory, max_bytes=max_bytes, min_free_bytes=min_free_bytes, wake=lambda: None)
    try:
        yield tier
    finally:
        tier.close(deadline=time.monotonic() + _WRITE_SECONDS)
