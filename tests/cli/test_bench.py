"""`mlxctl bench`: terminal output, JSON, comparisons and reports."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from mlxctl.bench.result import Result, load_result, save_result
from mlxctl.bench.scenarios import Throughput
from mlxctl.cli import app
from mlxctl.cli.bench import tables
from tests.bench.fixed_rate_server import fixed_rate_server
from tests.bench.sample_results import CEILING, FAST, RATES, SLOW, THROUGHPUT, sample_result
from tests.snapshot_location import TextSnapshots

runner = CliRunner()
QUICKLY = ["--requests", "2", "--prompt-tokens", "16", "--answer-tokens", "5", "--rounds", "2"]
RESULTS = {
    "latency": sample_result(FAST),
    "against": sample_result(FAST, SLOW),
    "throughput": sample_result(RATES, scenario=THROUGHPUT, ceiling=CEILING),
    "partial": sample_result(FAST, problem="interrupted"),
}


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", RESULTS)
def test_result_page_on_a_terminal(name: str, width: int, snapshot: SnapshotAssertion) -> None:
    console = Console(width=width, force_terminal=True, color_system=None, highlight=False)
    with console.capture() as captured:
        tables.print_result(RESULTS[name], Path("bench_results/sample.json"), console)
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= width
    assert "\n".join(line.rstrip() for line in lines) + "\n" == snapshot(extension_class=TextSnapshots)


@pytest.mark.parametrize("num_servers", [1, 2])
def test_result_page_truncates_no_name_or_number_at_80_columns(num_servers: int) -> None:
    values = tuple(1000.0 + number for number in range(100))
    names = ("decode_tokens_per_second_x16", "decode_tokens_per_second_x4")
    result = sample_result(
        *[dict.fromkeys(names, values)] * num_servers, scenario=Throughput(streams=(4, 16))
    )
    console = Console(width=80, force_terminal=True, color_system=None, highlight=False)
    with console.capture() as captured:
        tables.print_result(result, Path("bench_results/sample.json"), console)
    shown = captured.get()
    assert all(name in shown for name in names)
    assert "…" not in shown
    assert "1,050 tok/s" in shown


def test_off_a_terminal_stdout_is_json_and_the_table_is_on_stderr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is stored apart from the current directory."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with fixed_rate_server() as server:
        run = runner.invoke(app, ["bench", "latency", "--url", server.url, *QUICKLY])
    assert run.exit_code == 0, run.output
    last = json.loads(run.stdout)
    (file,) = (tmp_path / "mlxctl" / "bench").iterdir()
    assert file == Path(last["file"])
    assert load_result(file).scenario == "latency"
    assert last["medians"]["A"]["ttft_p50"] > 0
    assert "ttft_p50" in run.stderr


def test_json_option_prints_only_the_stored_result(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    with fixed_rate_server() as server:
        run = runner.invoke(
            app, ["bench", "latency", "--url", server.url, "--out", str(out), "--json", *QUICKLY]
        )
    assert json.loads(run.stdout) == json.loads(out.read_text())
    assert run.stderr == ""


def test_interrupted_run_stores_complete_rounds(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    with fixed_rate_server(pause_seconds=0.02) as server:
        command = [
            sys.executable,
            "-m",
            "mlxctl",
            "bench",
            "latency",
            "--url",
            server.url,
            "--out",
            str(out),
            *QUICKLY,
        ]
        process = subprocess.Popen(
            [*command, "--rounds", "200"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        assert any("round 2/200 ended" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    result: Result = load_result(out)
    assert result.is_partial
    assert 2 <= result.num_rounds < 200
    assert json.loads(stdout)["is_partial"]
    assert "PARTIAL" in stderr
    assert "interrupted; the complete rounds are stored as a partial result" in stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--url", "http://127.0.0.1:9"], "no server answers at http://127.0.0.1:9/v1"),
        (["--url", "ftp://x"], "'ftp://x' is not a server URL"),
        (
            ["--url", "http://127.0.0.1:9", "--", "--max-queue", "1"],
            "'--max-queue' is an option of the server that is started here",
        ),
        (["--against-model", "x"], "need --against"),
        (["--model", "/nowhere"], "there is no model directory at '/nowhere'"),
        (["--out", __file__], "is neither a directory nor a .json file"),
    ],
)
def test_invalid_options_are_a_one_line_error(arguments: list[str], words: str) -> None:
    run = runner.invoke(app, ["bench", "latency", *arguments])
    assert run.exit_code in (1, 2)
    assert words in run.stderr.replace("\n", " ")
    assert run.stderr.splitlines()[-1].startswith("mlxctl: ")


@pytest.fixture
def stored(tmp_path: Path) -> tuple[Path, Path]:
    """A result, and a slower one."""
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    save_result(RESULTS["latency"], before)
    save_result(
        sample_result({name: tuple(value * 1.3 for value in values) for name, values in FAST.items()}), after
    )
    return before, after


def test_compare_fails_only_on_its_conditions(stored: tuple[Path, Path], snapshot: SnapshotAssertion) -> None:
    before, after = map(str, stored)
    fine = runner.invoke(app, ["bench", "compare", before, after, "--fail-if", "ttft_p50>+50%"])
    assert fine.exit_code == 0
    worse = runner.invoke(
        app, ["bench", "compare", before, after, "--fail-if", "ttft_p50>+10%", "--fail-if", "itl_p50<1ms"]
    )
    assert worse.exit_code == 1
    assert json.loads(worse.stdout)["failed"] == ["ttft_p50>+10%"]
    assert "\n".join(line.rstrip() for line in worse.stderr.splitlines()) == snapshot(
        extension_class=TextSnapshots
    )


def test_compare_json_is_one_document(stored: tuple[Path, Path]) -> None:
    run = runner.invoke(app, ["bench", "compare", *map(str, stored), "--json"])
    assert {change["verdict"] for change in json.loads(run.stdout)["changes"]} == {"worse"}


def test_invalid_condition_is_a_one_line_error(stored: tuple[Path, Path]) -> None:
    run = runner.invoke(app, ["bench", "compare", *map(str, stored), "--fail-if", "ttft"])
    assert run.exit_code == 2
    assert "condition 'ttft' cannot be read" in run.stderr


def test_report_renders_stored_results(stored: tuple[Path, Path], tmp_path: Path) -> None:
    run = runner.invoke(app, ["bench", "report", *map(str, stored), "--out", str(tmp_path / "report")])
    assert run.exit_code == 0
    assert (tmp_path / "report" / "report.md").is_file()
    assert "2 results in" in run.stdout


def test_report_without_results_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    run = runner.invoke(app, ["bench", "report"])
    assert run.exit_code == 1
    assert "there is no stored result" in run.stderr
