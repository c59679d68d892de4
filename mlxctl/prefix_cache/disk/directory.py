"""Directory of the disk tier.

Owner-only, used by one process at a time.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from mlxctl.ir.errors import StoreError
from mlxctl.prefix_cache.disk.lock import DirectoryLock
from mlxctl.prefix_cache.disk.manifest import Manifest
from mlxctl.prefix_cache.disk.segments import SegmentFiles

MANIFEST = "manifest.sqlite"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedDirectory:
    """A directory that this process owns until `lock` is released."""

    path: Path
    lock: DirectoryLock
    manifest: Manifest
    files: SegmentFiles


def claim_directory(cache_directory: Path) -> ClaimedDirectory:
    """Create or open `prefixes` in the cache directory and lock it.

    Damaged files are renamed, with one log line each. Waits for a process that is about to release the lock.
    Raises StoreError if another process uses the directory, if it belongs to another user or a newer version,
    or cannot be written.
    """
    path = tier_directory(cache_directory)
    try:
        _make_private(path)
        lock = DirectoryLock.acquire(path)
        try:
            files = SegmentFiles(path)
            files.set_obstacles_aside()
            return ClaimedDirectory(
                path=path, lock=lock, manifest=Manifest.open(path / MANIFEST), files=files
            )
        except BaseException:
            lock.release()
            raise
    except OSError as error:
        raise StoreError(f"cannot use {str(path)!r}: {error.strerror or error}") from error


def tier_directory(cache_directory: Path) -> Path:
    """Return the disk tier's path in a cache directory.

    It need not exist.
    """
    return cache_directory / "prefixes"


def _make_private(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    # SEC: keys and values reveal prompts, so no other user may own or enter the directory.
    if path.is_symlink() or path.stat().st_uid != os.getuid():
        raise StoreError(f"{str(path)!r} belongs to another user or is a link")
    path.chmod(0o700)
