"""Segment files: read and write bytes at an extent.

Any thread; knows no records.
"""

import logging
import os
from collections.abc import Iterable
from pathlib import Path

from mlxctl.prefix_cache.disk.space import Extent
from mlxctl.state.stores.damage import set_aside

_SUFFIX = ".segment"

_log = logging.getLogger(__name__)


class SegmentFiles:
    """Files `00000000.segment`, … in an owner-only directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, extent: Extent, pieces: Iterable[bytes]) -> None:
        """Write the pieces one after the other.

        Together they must fill the extent. Raises OSError.
        """
        file = os.open(self._path(extent.segment), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            offset = extent.offset
            for piece in pieces:
                view = memoryview(piece)
                while view:
                    num_written = os.pwrite(file, view, offset)
                    view, offset = view[num_written:], offset + num_written
            assert offset == extent.end, "a record fills its extent"
        finally:
            os.close(file)

    def read(self, extent: Extent) -> bytes:
        """Return the extent's bytes; fewer where the file ends early. Raises OSError."""
        file = os.open(self._path(extent.segment), os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(file, extent.num_bytes, extent.offset)
        finally:
            os.close(file)

    def shorten(self, segment: int, size: int) -> None:
        """Cut a file to `size`; 0 removes it. Raises OSError."""
        path = self._path(segment)
        if size:
            os.truncate(path, size)
        else:
            path.unlink(missing_ok=True)

    def sizes(self) -> dict[int, int]:
        """Return the length of every segment file by number."""
        return {int(path.stem): path.stat().st_size for path in self._paths() if path.is_file()}

    def set_obstacles_aside(self) -> None:
        """Rename directories and links with a segment file's name. Raises OSError."""
        for path in self._paths():
            if path.is_symlink() or not path.is_file():
                _log.warning("%s is not a file; it was set aside as %s", path, set_aside(path).name)

    def _paths(self) -> list[Path]:
        return [
            path
            for path in self._directory.glob(f"*{_SUFFIX}")
            if path.stem.isascii() and path.stem.isdecimal()
        ]

    def _path(self, segment: int) -> Path:
        return self._directory / f"{segment:08d}{_SUFFIX}"
