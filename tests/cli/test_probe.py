"""`mlxctl probe`: output, errors and stored results."""

import io
import json
import os
import pty
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console
from rich.text import Text
from snapshot_location import TextSnapshots
from syrupy.assertion import SnapshotAssertion

from mlxctl.cli import app
from mlxctl.cli.probe.results import ProgressBar
from mlxctl.library import demo
from mlxctl.library.fingerprint import fingerprint
from mlxctl.probe.interview_steps import QUESTIONS_VERSION
from mlxctl.state.stores import QUESTIONS, CapabilityStore, Exchange, Finding, read_overrides
from tests import tiny_models
from tests.state.stores.probe_records import record

ASKED = Exchange(
    prompt="<|im_start|>user\nWhat is the [bold]weather[/] in Lisbon?<|im_end|>\n",
    output='<tool_call>\n{"name": "sky_report", "arguments": {"city": "Lisbon"}}\n</tool_call>\x1b[2J',
    parser_id="hermes_json",
    num_tokens=19,
    duration_seconds=0.25,
)
FOUND = {
    "chat": Finding(question="chat", verdict="yes", reason="it answered and ended by itself after 30 tokens"),
    "tools": Finding(
        question="tools",
        verdict="yes",
        reason="2 of 2 right, offered by the chat template; in its own format",
        value={"parser": "hermes_json", "delivery": "template"},
        exchanges=(ASKED,),
    ),
    "structured_output": Finding(
        question="structured_output", verdict="no", reason="not even with constrained decoding"
    ),
    "practical_context": Finding(
        question="practical_context", verdict="yes", reason="8,192 tokens", value={"tokens": 8192}
    ),
    "vision": Finding(
        question="vision",
        verdict="unknown",
        reason="its files say vision; no image can be shown to it here yet",
    ),
}
runner = CliRunner()


@pytest.fixture
def snapshot(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(TextSnapshots)


@pytest.fixture
def store_file(home: Path) -> Path:
    return home / "state" / "mlxctl" / "capabilities.sqlite"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library with two models, one of which was probed."""
    good = shutil.copytree(tiny_models.model("qwen3"), tmp_path / "models" / "org" / "good")
    shutil.copytree(tiny_models.model("llama3"), tmp_path / "models" / "org" / "other")
    (tmp_path / "mlxctl.toml").write_text(f"[library]\nmodels_dirs = [{str(tmp_path / 'models')!r}]\n")
    monkeypatch.setenv("MLXCTL_CONFIG", str(tmp_path / "mlxctl.toml"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    findings = [
        FOUND.get(question, Finding(question=question, verdict="yes", reason="so it is"))
        for question in QUESTIONS
    ]
    known = replace(
        record(*findings, fingerprint=fingerprint(good)),
        round=QUESTIONS_VERSION,
        duration_seconds=12.3,
        probed_at=1.8e9,
    )
    store = CapabilityStore(tmp_path / "state" / "mlxctl" / "capabilities.sqlite")
    store.save(known)
    store.close()
    return tmp_path


def run(*arguments: str) -> Any:
    return runner.invoke(app, ["probe", *arguments])


def lines(text: str) -> str:
    """Return the text without terminal control sequences."""
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def test_one_model_prints_a_table_of_findings(home: Path, snapshot: SnapshotAssertion) -> None:
    result = run("org/good")
    assert (result.exit_code, result.stderr) == (0, "")
    assert lines(result.stdout) == snapshot


def test_show_prints_evidence_verbatim_without_control_characters(
    home: Path, snapshot: SnapshotAssertion
) -> None:
    result = run("org/good", "--show")
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    start = result.stdout.index("fingerprint")
    shown = result.stdout[:start] + result.stdout[result.stdout.index("\n", start) + 1 :]
    assert lines(shown) == snapshot


def test_several_models_print_a_table_and_one_line_per_problem(
    home: Path, snapshot: SnapshotAssertion
) -> None:
    shutil.copytree(home / "models" / "org" / "good", home / "models" / "org" / "same")
    shutil.copytree(home / "models" / "org" / "good", home / "models" / "org" / "bad")
    (home / "models" / "org" / "bad" / "config.json").unlink()
    result = run("org/good", "org/same", "org/bad", "nothing")
    assert result.exit_code == 1
    assert lines(result.stdout) == snapshot
    assert result.stderr.splitlines() == [
        "mlxctl: model 'bad' has no config.json",
        (
            "mlxctl: there is no model directory at 'nothing' and no model of this name in the library; "
            "`mlxctl models ls` lists models, `mlxctl models search` finds others to download"
        ),
    ]


def test_embeddings_and_audio_columns_appear_only_if_supported(home: Path, store_file: Path) -> None:
    shutil.copytree(home / "models" / "org" / "good", home / "models" / "org" / "same")
    rare = [run("org/good", "org/same").stdout.split("\n")[0]]
    silent = [Finding(question=question, verdict="no", reason="its files say text") for question in QUESTIONS]
    known = replace(
        record(*silent, fingerprint=fingerprint(home / "models" / "org" / "good")), round=QUESTIONS_VERSION
    )
    store = CapabilityStore(store_file)
    store.save(known)
    store.close()
    rare.append(run("org/good", "org/same").stdout.split("\n")[0])
    assert [("vectors" in header, "audio" in header) for header in rare] == [(True, True), (False, False)]


def test_probe_help_page(snapshot: SnapshotAssertion) -> None:
    result = runner.invoke(app, ["probe", "--help"], env={"COLUMNS": "100", "TERMINAL_WIDTH": "100"})
    assert lines(result.output) == snapshot


def test_json_has_findings_and_with_show_the_evidence(home: Path) -> None:
    (short,) = json.loads(run("org/good", "--json").stdout)
    (long,) = json.loads(run("org/good", "--json", "--show").stdout)
    assert (short["model"], short["probed_at"], short["problem"]) == (
        "org/good",
        "2027-01-15T08:00:00+00:00",
        None,
    )
    tools = next(finding for finding in long["findings"] if finding["question"] == "tools")
    assert tools["exchanges"][0]["output"] == ASKED.output
    assert not any("exchanges" in finding for finding in short["findings"])
    assert [finding["verdict"] for finding in short["findings"]] == [
        finding["verdict"] for finding in long["findings"]
    ]


def test_override_wins_and_names_its_file(home: Path) -> None:
    file = home / "config" / "mlxctl" / "capabilities.toml"
    file.parent.mkdir(parents=True)
    file.write_text('["org/good"]\ntools = "no"\n')
    assert f"tool calls                        no       set in {file}" in run("org/good").stdout
    file.write_text('["org/good"]\ntools = "perhaps"\n')
    result = run("org/good")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert 'expected "yes", "no" or "unknown", got \'perhaps\'' in result.stderr


def test_toml_output_never_overwrites_a_file(home: Path) -> None:
    file = home / "answers.toml"
    assert run("org/good", "--toml", str(file)).exit_code == 0
    override = read_overrides(file)["org/model"]
    assert override.verdicts["vision"] == "unknown"
    assert override.values["tools"] == {"parser": "hermes_json", "delivery": "template"}
    before = file.read_text()
    result = run("org/good", "--toml", str(file))
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert file.read_text() == before


def test_ls_and_info_show_probe_results(home: Path) -> None:
    listing = runner.invoke(app, ["models", "ls"]).stdout.splitlines()
    assert [line.split()[0] for line in listing if line.endswith(" yes")] == ["org/good"]
    assert [line.split()[0] for line in listing if line.endswith(" no")] == ["org/other"]
    as_json = json.loads(runner.invoke(app, ["models", "ls", "--json"]).stdout)
    assert {model["name"]: model["probed"] for model in as_json} == {"org/good": True, "org/other": False}
    good = runner.invoke(app, ["models", "info", "org/good"]).stdout
    assert "2027-01-15 08:00; all evidence: mlxctl probe org/good --show" in good
    assert "tool calls                        yes" in good
    other = runner.invoke(app, ["models", "info", "org/other"]).stdout
    assert "mlxctl probe org/other" in other
    assert "tool calls" not in other
    assert (
        json.loads(runner.invoke(app, ["models", "info", "org/good", "--json"]).stdout)["findings"]["vision"]
        == "unknown"
    )


def test_show_probes_nothing(home: Path) -> None:
    result = run("org/other", "--show")
    assert (result.exit_code, result.stdout) == (1, "")
    assert (
        result.stderr == "mlxctl: model 'org/other' was never probed; to probe it: mlxctl probe org/other\n"
    )


@pytest.mark.parametrize("more", [[], ["--show"]])
def test_store_of_a_newer_version_is_a_one_line_error(home: Path, store_file: Path, more: list[str]) -> None:
    connection = sqlite3.connect(store_file)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    result = run("org/good", *more)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    assert "written by a newer mlxctl" in result.stderr


@pytest.mark.parametrize("arguments", [[], ["org/good", "--all"]])
def test_probe_needs_names_or_all(home: Path, arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


def test_empty_library_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mlxctl.toml").touch()
    monkeypatch.setenv("MLXCTL_CONFIG", str(tmp_path / "mlxctl.toml"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    result = run("--all")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "the library has no model" in result.stderr


def test_progress_of_a_long_model_name_fits_80_columns() -> None:
    screen = Console(file=io.StringIO(), width=80, force_terminal=True)
    with ProgressBar(is_quiet=False, screen=screen) as bar:
        bar.model_started("mlx-community/Qwen3-Coder-30B-A3B-Instruct-4bit-DWQ", 12)
        bar.step_started("thinking switched off by the template")
        bar.tokens_generated(12_345)
    shown = Text.from_ansi(screen.file.getvalue()).plain  # type: ignore[attr-defined]
    assert "0/12 thinking" in shown
    assert "12,345 tokens 0:00:00" in shown


def test_ctrl_c_stores_findings_and_next_run_continues(home: Path, store_file: Path) -> None:
    """On a real terminal, with a progress bar."""
    leader, terminal = pty.openpty()
    command = [sys.executable, "-m", "mlxctl", "probe", str(demo.MODEL_DIR)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=terminal, env={**os.environ, "TERM": "xterm"}, text=True
    )
    os.close(terminal)
    shown = b""
    while b"tools" not in shown:
        shown += os.read(leader, 1000)
    process.send_signal(signal.SIGINT)
    table, _ = process.communicate(timeout=60)
    os.close(leader)
    assert process.returncode == 130
    store = CapabilityStore(store_file)
    kept = store.find(fingerprint(demo.MODEL_DIR))
    store.close()
    assert kept is not None
    assert not kept.is_complete
    found = {finding.question for finding in kept.findings}
    assert {"thinking", "chat", "trimmable_cache"} <= found
    assert "batch_safe" not in found
    assert "thinking" in table
