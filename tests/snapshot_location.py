"""Snapshots are stored under `snapshots/`, mirroring `tests/`."""

from pathlib import Path

from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from syrupy.location import PyTestLocation

_TESTS = Path(__file__).parent
_SNAPSHOTS = _TESTS.parent / "snapshots"


class TopLevelDirectory:
    """Stores snapshots of `tests/a/test_b.py` in `snapshots/a/test_b/`.

    A mixin, before the extension.
    """

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        test_file = Path(test_location.filepath).relative_to(_TESTS)
        return str(_SNAPSHOTS / test_file.with_suffix(""))


class TextSnapshots(TopLevelDirectory, SingleFileSnapshotExtension):
    """One plain text file per snapshot, for readable diffs."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"
