"""`mlxctl bench` as a person and as a machine see it."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

from mlxctl.bench.result import Result, load_result
from mlxctl.cli import app
from mlxctl.cli.bench import tables
from tests.bench.metronome import metronome
from tests.bench.samples import CEILING, QUICK, RATES, SLOW, THROUGHPUT, sample_result
from tests.snapshot_location import TextSnapshots

runner = CliRunner()
QUICKLY = ["--requests", "2", "--prompt-tokens", "16", "--answer-tokens", "5", "--rounds", "2"]
RESULTS = {
    "latency": sample_result(QUICK),
    "against": sample_result(QUICK, SLOW),
    "throughput": sample_result(RATES, scenario=THROUGHPUT, ceiling=CEILING),
    "partial": sample_result(QUICK, problem="interrupted"),
}


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", RESULTS)
def test_a_result_on_a_terminal(name: str, width: int, snapshot: SnapshotAssertion) -> None:
    console = Console(width=width, force_terminal=True, color_system=None, highlight=False)
    with console.capture() as captured:
        tables.print_result(RESULTS[name], Path("bench_results/sample.json"), console)
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= width
    assert "\n".join(line.rstrip() for line in lines) + "\n" == snapshot(extension_class=TextSnapshots)


def test_the_last_line_is_json_and_the_result_is_stored(tmp_path: Path) -> None:
    with metronome() as server:
        run = runner.invoke(app, ["bench", "latency", "--url", server.url, "--out", str(tmp_path), *QUICKLY])
    assert run.exit_code == 0, run.output
    last = json.loads(run.stdout.splitlines()[-1])
    (file,) = tmp_path.iterdir()
    assert file == Path(last["file"])
    assert load_result(file).scenario == "latency"
    assert last["medians"]["A"]["ttft_p50"] > 0


def test_json_alone_is_the_whole_result(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    with metronome() as server:
        run = runner.invoke(app, ["bench", "latency", "--url", server.url, "--out", str(out), "--json", *QUICKLY])
    assert json.loads(run.stdout) == json.loads(out.read_text())
    assert run.stderr == ""


def test_an_interrupted_run_keeps_what_it_has_and_says_so(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    with metronome(pause_seconds=0.02) as server:
        command = [sys.executable, "-m", "mlxctl", "bench", "latency", "--url", server.url, "--out", str(out), *QUICKLY]
        process = subprocess.Popen([*command, "--rounds", "200"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        while "round 2/200 is over" not in process.stderr.readline():
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=20)
    assert process.returncode == 130
    result: Result = load_result(out)
    assert result.is_partial
    assert 2 <= result.num_rounds < 200
    assert "PARTIAL" in stdout
    assert "interrupted; what was measured until then is stored as partial" in stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--url", "http://127.0.0.1:9"], "no server answers at http://127.0.0.1:9/v1"),
        (["--url", "ftp://x"], "'ftp://x' is no URL of a server"),
        (["--url", "http://127.0.0.1:9", "--", "--max-queue", "1"], "'--max-queue' is for an own server"),
        (["--against-model", "x"], "give that too"),
        (["--model", "/nowhere"], "there is no model directory at '/nowhere'"),
        (["--out", __file__], "is neither a directory nor a .json file"),
    ],
)
def test_what_cannot_be_measured_is_one_line(arguments: list[str], words: str) -> None:
    run = runner.invoke(app, ["bench", "latency", *arguments])
    assert run.exit_code == 1
    assert words in run.stderr.replace("\n", " ")
    assert run.stderr.splitlines()[-1].startswith("mlxctl: ")
