"""Golden streams are text files under the repository's `snapshots/`."""

import pytest
from snapshot_location import TextSnapshots
from syrupy.assertion import SnapshotAssertion


@pytest.fixture
def golden(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(TextSnapshots)
