"""What can be done to the warm tier while no server uses it: collect, pin, clear. Each claims the directory and lets it go."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mlxctl.errors import StoreError
from mlxctl.prefix_cache.chunks import Key
from mlxctl.prefix_cache.disk.directory import MANIFEST, claim
from mlxctl.prefix_cache.disk.inspection import DiskInspector
from mlxctl.prefix_cache.disk.manifest import discard_manifest
from mlxctl.prefix_cache.disk.tier import DiskTier

_WRITE_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What a collection did: records that were of no use, and bytes of files before and after."""

    num_damaged: int
    bytes_before: int
    bytes_after: int


def collect(cache_directory: Path, *, max_bytes: int, min_free_bytes: int = 0) -> Collected:
    """Remove what has expired, what is damaged, and the least recently used beyond `max_bytes`.

    Raises StoreError when there is nothing, or when a server uses it.
    """
    inspector = DiskInspector.open(cache_directory)
    try:
        findings, before = inspector.verify(), inspector.sizes().file_bytes
    finally:
        inspector.close()
    with _opened(cache_directory, max_bytes=max_bytes, min_free_bytes=min_free_bytes) as tier:
        for finding in findings:
            chunk = tier.index.find(finding.key)
            if chunk is not None:
                tier.spoil(chunk, finding.position, finding.detail)
        after = tier.file_bytes
    return Collected(num_damaged=len(findings), bytes_before=before, bytes_after=after)


def set_pin(cache_directory: Path, key: Key, *, is_pinned: bool) -> bool:
    """Pin a prefix on disk, or end that; False when it is not there, or was not pinned. Raises StoreError like `collect`."""
    with _opened(cache_directory, max_bytes=2**62, min_free_bytes=0) as tier:
        return tier.pin(key) if is_pinned else tier.unpin(key)


def clear(cache_directory: Path) -> int:
    """Remove everything, pinned or not, and return how many bytes of files that were. Raises StoreError when a server uses it."""
    directory = claim(cache_directory)
    try:
        sizes = directory.files.sizes()
        directory.manifest.close()
        discard_manifest(directory.path / MANIFEST)
        for number in sizes:
            directory.files.shorten(number, 0)
    except OSError as error:
        raise StoreError(f"cannot clear {str(directory.path)!r}: {error.strerror or error}") from error
    finally:
        directory.lock.release()
    return sum(sizes.values())


@contextmanager
def _opened(cache_directory: Path, *, max_bytes: int, min_free_bytes: int) -> Iterator[DiskTier]:
    tier = DiskTier(claim(cache_directory), max_bytes=max_bytes, min_free_bytes=min_free_bytes, wake=lambda: None)
    try:
        yield tier
    finally:
        tier.close(deadline=time.monotonic() + _WRITE_SECONDS)
