"""Golden views of the inspector."""

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.snapshot_location import TextSnapshots


@pytest.fixture
def golden(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    """One text file per view, in `snapshots/cli/inspector`."""
    return snapshot.use_extension(TextSnapshots)
