"""The directory of the warm tier: claimed by one process at a time, owner-only, opened whatever state it was
left in.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from mlxctl.errors import StoreError
from mlxctl.prefix_cache.disk.lock import DirectoryLock
from mlxctl.prefix_cache.disk.manifest import Manifest
from mlxctl.prefix_cache.disk.segments import SegmentFiles

MANIFEST = "manifest.sqlite"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedDirectory:
    """A directory that is ours until `lock` is released."""

    path: Path
    lock: DirectoryLock
    manifest: Manifest
    files: SegmentFiles


def claim_directory(cache_directory: Path) -> ClaimedDirectory:
    """Make and open `prefixes` in the cache directory; what is damaged there is set aside, with a line in the
    log each.

    A directory that another process is about to release is waited for. Raises StoreError when another process
    uses it, when it is somebody else's or a newer version's, or cannot be written.
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
    """Return where in a cache directory the warm tier lies; it need not exist."""
    return cache_directory / "prefixes"


def _make_private(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    # SEC: prompts can be read out of keys and values, so nobody else may own or enter the place.
    if path.is_symlink() or path.stat().st_uid != os.getuid():
        raise StoreError(f"{str(path)!r} belongs to somebody else or is a link")
    path.chmod(0o700)
