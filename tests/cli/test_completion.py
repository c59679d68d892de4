"""Completion scripts: up to date, working in a real shell, and quick."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mlxctl.cli import app
from mlxctl.cli.completion import SHELLS, completion_script
from mlxctl.cli.completion.tree import first_sentence, read_tree
from tests.library.weight_files import packed, write_model

COMPLETIONS = Path(__file__).parent.parent.parent / "completions"
runner = CliRunner()


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library with two models and an alias."""
    for name in ("org/first", "second"):
        write_model(tmp_path / "models" / name, {"model_type": "qwen3"}, packed("up_proj", 64, 64))
    file = tmp_path / "mlxctl.toml"
    file.write_text(
        f"[library]\nmodels_dirs = [{str(tmp_path / 'models')!r}]\n[library.aliases]\nquick = 'org/first'\n"
    )
    monkeypatch.setenv("MLXCTL_CONFIG", str(file))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))


def complete(line: str) -> list[str]:
    """Return bash's completions at the end of the line."""
    words = line.split(" ")
    program = f"""
        mlxctl() {{ {shlex.quote(sys.executable)} -m mlxctl "$@"; }}
        source {shlex.quote(str(COMPLETIONS / "mlxctl.bash"))}
        COMP_WORDS=({" ".join(map(shlex.quote, words))}) COMP_CWORD={len(words) - 1}
        _mlxctl
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    run = subprocess.run(
        ["bash", "--norc", "-c", program], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    return run.stdout.split()


@pytest.mark.parametrize("shell", SHELLS)
def test_stored_script_equals_command_output(shell: str) -> None:
    assert (COMPLETIONS / f"mlxctl.{shell}").read_text() == completion_script(shell), (
        f"run: mlxctl completion {shell}"
    )
    assert runner.invoke(app, ["completion", shell]).stdout == completion_script(shell)


@pytest.mark.parametrize("shell", SHELLS)
def test_script_has_every_command_and_long_option(shell: str) -> None:
    script = completion_script(shell)
    for command in read_tree():
        assert command.name in script
        for name in (name for option in command.options for name in option.names if name.startswith("--")):
            assert (f"-l {name[2:]} " if shell == "fish" else name) in script


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("mlxctl be", ["bench"]),
        ("mlxctl bench lat", ["latency"]),
        ("mlxctl bench latency --ro", ["--rounds"]),
        ("mlxctl bench --help lat", ["latency"]),
        ("mlxctl serve --port 8 --log-level wa", ["warning"]),
        ("mlxctl serve --model bench --trust", ["--trust-remote-code"]),
        ("mlxctl completion ", ["bash", "zsh", "fish"]),
        ("mlxctl launch c", ["claude", "codex"]),
        ("mlxctl serve --kv-bits ", ["full", "8", "4"]),
        ("mlxctl serve --port ", []),
        ("mlxctl bench latency -- --po", []),
    ],
)
def test_bash_completes_commands_and_options(line: str, offered: list[str]) -> None:
    assert complete(line) == offered


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("mlxctl serve --model ", ["mlxctl-demo", "org/first", "quick", "second"]),
        ("mlxctl chat -m se", ["second"]),
        ("mlxctl models rm org", ["org/first"]),
        ("mlxctl probe q", ["quick"]),
    ],
)
def test_bash_completes_models_and_aliases(line: str, offered: list[str]) -> None:
    assert complete(line) == offered


def test_bash_completes_files_and_directories(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text("{}")
    (tmp_path / "two").mkdir()
    assert complete(f"mlxctl bench compare {tmp_path}/o") == [f"{tmp_path}/one.json"]
    assert complete(f"mlxctl bench report --out {tmp_path}/t") == [f"{tmp_path}/two"]


def test_completion_with_invalid_settings_prints_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLXCTL_SERVER_PORT", "eighty")
    run = runner.invoke(app, ["completion", "models"])
    assert (run.exit_code, run.output.strip()) == (0, "")


def test_unknown_shell_is_a_usage_error() -> None:
    run = runner.invoke(app, ["completion", "powershell"])
    assert run.exit_code == 2
    assert "No such command 'powershell'. There are bash, zsh, fish." in run.output


@pytest.mark.parametrize("what", ["models", "agents"])
def test_completion_of_names_imports_no_heavy_package(what: str) -> None:
    program = (
        f"import sys, mlxctl.__main__; sys.argv = {['mlxctl', 'completion', what]!r}; mlxctl.__main__.main()"
    )
    run = subprocess.run(
        [sys.executable, "-c", f"{program}; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    modules = set(run.stdout.split())
    loaded = {name.partition(".")[0] for name in modules}
    assert "mlxctl" in loaded
    assert loaded.isdisjoint(
        {
            "typer",
            "pydantic",
            "rich",
            "asyncio",
            "httpx",
            "huggingface_hub",
            "numpy",
            "mlx",
            "jinja2",
            "msgspec",
        }
    )
    heavy = {"mlxctl.ir.requests", "mlxctl.library.description", "mlxctl.state.stores.database"}
    assert modules.isdisjoint(heavy)


@pytest.mark.usefixtures("library")
def test_fast_path_prints_the_same_as_the_command() -> None:
    quick = subprocess.run(
        [sys.executable, "-m", "mlxctl", "completion", "models"], capture_output=True, text=True, check=True
    )
    assert (
        quick.stdout
        == runner.invoke(app, ["completion", "models"]).stdout
        == "mlxctl-demo\norg/first\nquick\nsecond\n"
    )


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("Print JSON.  [default: no]", "Print JSON"),
        ("Settings file.\n\nMore of it.", "Settings file"),
        (
            "A long text that goes on and on, and then on; and when it is much too long it ends there.",
            "A long text that goes on and on, and then on",
        ),
    ],
)
def test_first_sentence_shortens_help_texts(text: str, short: str) -> None:
    assert first_sentence(text) == short
