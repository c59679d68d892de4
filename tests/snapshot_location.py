"""Where golden files live: under `snapshots/` at the top of the repository, mirroring `tests/`."""

from pathlib import Path

from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from syrupy.location import PyTestLocation

_TESTS = Path(__file__).parent
_SNAPSHOTS = _TESTS.parent / "snapshots"


class TopLevelDirectory:
    """Puts the snapshots of `tests/room/test_thing.py` into `snapshots/room/test_thing/`; mix it in before an
    extension.
    """

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        test_file = Path(test_location.filepath).relative_to(_TESTS)
        return str(_SNAPSHOTS / test_file.with_suffix(""))


class TextSnapshots(TopLevelDirectory, SingleFileSnapshotExtension):
    """One plain text file per snapshot, so that a change is read as a diff."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"
