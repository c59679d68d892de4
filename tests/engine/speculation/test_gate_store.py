"""Measurements of speculation survive a restart; a damaged file counts as none."""

import json
import os
from pathlib import Path

import pytest

from mlxctl.engine.speculation.policy.gate import DraftOdds
from mlxctl.engine.speculation.policy.gate_store import GateStore
from tests.permissions import restricted_directory

DRAFT = [DraftOdds(7, 0.9)]


def measured(directory: Path) -> GateStore:
    store = GateStore(directory)
    gate = store.gate("model", "lookup")
    for _ in range(8):
        gate.observe_plain(1, 100, 0.01)
    gate.observe_block(1, 100, num_draft_tokens=7, num_emitted=8, seconds=0.02)
    gate.observe_block(1, 100, num_draft_tokens=7, num_emitted=8, seconds=0.02)
    gate.rate(2).add(7, 7, memory=0.9)
    store.save()
    return store


def test_measurements_are_read_at_the_next_start(tmp_path: Path) -> None:
    before = measured(tmp_path).gate("model", "lookup")
    gate = GateStore(tmp_path).gate("model", "lookup")
    assert gate.seconds[1, 0].blocks[7].seconds == before.seconds[1, 0].blocks[7].seconds
    assert gate.rate(2).rate == before.rate(2).rate
    # Steps without drafts are measured again before the first draft.
    assert gate.block_length(1, 100, DRAFT) == 0
    for _ in range(4):
        gate.observe_plain(1, 100, 0.01)
    assert gate.block_length(1, 100, DRAFT) == 7


def test_other_models_stay_in_the_file(tmp_path: Path) -> None:
    measured(tmp_path)
    other = GateStore(tmp_path)
    other.gate("other", "lookup").observe_plain(2, 100, 0.5)
    other.save()
    assert GateStore(tmp_path).gate("model", "lookup").seconds
    assert GateStore(tmp_path).gate("other", "lookup").seconds[2, 0].plain.seconds == 0.5


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"gates": 3}',
        b'{"gates": {"model:lookup": {"seconds": {"1x0": {"plain": {"seconds": -1}}}}}}',
        b'{"gates": {"model:lookup": {"seconds": {"one": {}}}}}',
        b'{"gates": {"model:lookup": {"acceptance": {"0": {"accepted": 3, "tested": 0}}}}}',
    ],
)
def test_damaged_file_counts_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "speculation.json").write_bytes(content)
    store = GateStore(tmp_path)
    assert store.gate("model", "lookup").seconds == {}
    store.gate("model", "lookup").observe_plain(1, 1, 0.1)
    store.save()
    assert json.loads((tmp_path / "speculation.json").read_bytes())["gates"]


def test_pipe_in_place_of_the_file_counts_as_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "speculation.json")
    assert GateStore(tmp_path).gate("model", "lookup").seconds == {}


def test_directory_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = GateStore(tmp_path / "file")
    store.gate("model", "lookup").observe_plain(1, 1, 0.1)
    store.save()
    assert GateStore(None).gate("model", "lookup").seconds == {}


def test_directory_that_cannot_be_entered_counts_as_empty(caplog: pytest.LogCaptureFixture) -> None:
    with restricted_directory() as directory:
        (directory / "closed").mkdir(mode=0)
        store = measured(directory / "closed" / "mlxctl")
        assert store.gate("other", "lookup").seconds == {}
    assert "speculation: measurements are not stored" in caplog.text
