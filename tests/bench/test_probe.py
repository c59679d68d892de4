"""Benchmark of `mlxctl probe` with the demo model."""

from pathlib import Path

import pytest

from mlxctl.bench.probe import run_probe_bench
from mlxctl.ir.errors import SettingsError
from mlxctl.library import demo
from tests.bench.recording_observer import RecordingObserver


def test_interrupted_probe_bench_keeps_finished_probes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    observer = RecordingObserver(cancels_at="A round 2/3")
    result = run_probe_bench(str(demo.MODEL_DIR), num_rounds=3, num_warmups=0, observer=observer)
    assert (result.is_partial, result.problem, result.num_rounds) == (True, "interrupted", 1)
    whole, *phases = result.measurements
    assert [found.name for found in phases] == [
        *(
            "files",
            "loading",
            "its_template",
            "memory_and_cache",
            "thinking",
            "conversation",
            "tools",
            "json",
            "batches",
        ),
        *("ending", "command"),
    ]
    assert sum(found.median for found in phases) == pytest.approx(whole.median)
    assert (
        min(
            found.median
            for found in phases
            if found.name in ("loading", "thinking", "tools", "json", "command")
        )
        > 0
    )
    assert [name for _, name in result.charts[0].bars] == [found.name for found in phases]
    assert list(tmp_path.iterdir()) == []


def test_unusable_model_raises_the_error_of_probe() -> None:
    with pytest.raises(SettingsError, match="there is no model directory at '/nowhere'"):
        run_probe_bench("/nowhere", num_rounds=1, num_warmups=0, observer=RecordingObserver())
