"""`mlxctl doctor`: terminal output, JSON and exit codes."""

import json

import pytest
from click.testing import CliRunner
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from mlxctl.cli import app
from mlxctl.cli.doctor import CheckResult
from mlxctl.cli.doctor.commands import result_line, summary
from tests.snapshot_location import TextSnapshots

runner = CliRunner()
FINDINGS = [
    CheckResult(name="platform", verdict="ok", facts="macOS 26.0 on arm64"),
    CheckResult(
        name="open files",
        verdict="advice",
        facts="256 files may be open at once",
        remedy="for many clients: `ulimit -n 4096`",
    ),
    CheckResult(
        name="packages",
        verdict="broken",
        facts="mlx 0.31 is installed, mlxctl needs >=0.32.4",
        remedy="`pip install 'mlx>=0.32.4'`",
    ),
]


def test_doctor_passes_and_json_has_the_same_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlxctl.cli.doctor.commands.run_checks", lambda: iter(FINDINGS[:2]))
    lines, document = runner.invoke(app, ["doctor"]), runner.invoke(app, ["doctor", "--json"])
    assert lines.exit_code == document.exit_code == 0
    assert "everything works" in lines.stdout
    for result in json.loads(document.stdout):
        assert result["verdict"] in ("ok", "advice")
        assert f" {result['name']} " in lines.stdout


def test_invalid_settings_are_broken_with_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLXCTL_SERVER_PORT", "eighty")
    monkeypatch.setattr("mlxctl.cli.doctor.generation.check_answer", lambda *_: FINDINGS[0])
    run = runner.invoke(app, ["doctor"])
    assert run.exit_code == 1
    assert "MLXCTL_SERVER_PORT" in run.stdout
    assert "broken: settings" in run.stdout


@pytest.mark.parametrize("width", [40, 80])
def test_doctor_output_on_a_terminal(width: int, snapshot: SnapshotAssertion) -> None:
    console = Console(width=width, force_terminal=True, color_system=None, highlight=False)
    with console.capture() as captured:
        for result in FINDINGS:
            console.print(result_line(result))
        console.print(summary(FINDINGS))
        console.print(summary(FINDINGS[:2]))
    assert "\n".join(line.rstrip() for line in captured.get().splitlines()) == snapshot(
        extension_class=TextSnapshots
    )
