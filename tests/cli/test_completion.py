"""Completion by TAB: what is offered, also in bash, and its imports."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner

from mlxctl.cli import app
from mlxctl.cli.launch.clients import CLIENTS
from mlxctl.library.conversion.mlx_lm_conversion import DTYPES, MODES, RECIPES
from mlxctl.server.resources.cache.cache_settings import CacheSettingsChange
from mlxctl.server.resources.operation.scheduler import SchedulerChange
from mlxctl.state.settings.models import KVBits
from tests.library.weight_files import packed, write_model

SCRIPTS = Path(__file__).parents[2] / "mlxctl" / "cli" / "completions"
runner = CliRunner()


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two models, an alias, and a name that a shell would run."""
    for name in ("org/first", "second", "$(touch x)"):
        write_model(tmp_path / "models" / name, {"model_type": "qwen3"}, packed("up_proj", 64, 64))
    file = tmp_path / "mlxctl.toml"
    file.write_text(
        f"[library]\nmodels_dirs = [{str(tmp_path / 'models')!r}]\n[library.aliases]\nquick = 'org/first'\n"
    )
    monkeypatch.setenv("MLXCTL_CONFIG", str(file))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))


def answer(line: str, *, shell: str = "fish") -> str:
    """Return what `mlxctl` answers to a shell's script after the line."""
    word = line.rpartition(" ")[2]
    cword = word if shell == "fish" else str(line.count(" "))
    environment = {"_MLXCTL_COMPLETE": f"{shell}_complete", "COMP_WORDS": line, "COMP_CWORD": cword}
    run = runner.invoke(app, [], env=environment, prog_name="mlxctl")
    assert run.exit_code == 0, run.output
    return run.stdout.rstrip("\n")


def complete(line: str) -> list[str]:
    """Return the words that a TAB offers after the line."""
    found = (item.partition("\t")[0] for item in answer(line).split("\n") if item)
    return [item.removeprefix("plain,") for item in found]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("mlxctl be", ["bench"]),
        ("mlxctl help models pu", ["pull"]),
        ("mlxctl bench lat", ["latency"]),
        ("mlxctl bench latency --ro", ["--rounds"]),
        ("mlxctl bench --help lat", ["latency"]),
        ("mlxctl admin keys r", ["rotate", "revoke"]),
        ("mlxctl serve --port 8 --log-level wa", ["warning"]),
        ("mlxctl serve --model bench --trust", ["--trust-remote-code"]),
        ("mlxctl completion ", ["bash", "zsh", "fish"]),
        ("mlxctl launch c", ["claude", "codex", "copilot"]),
        ("mlxctl launch ", list(CLIENTS)),
        ("mlxctl serve --kv-bits ", list(get_args(KVBits))),
        ("mlxctl models convert x --mode ", list(MODES)),
        ("mlxctl models convert x --recipe ", list(RECIPES)),
        ("mlxctl models convert x --dtype ", list(DTYPES)),
        ("mlxctl scheduler set ", [f"{name}=" for name in SchedulerChange.__struct_fields__]),
        ("mlxctl cache settings ", [f"{name}=" for name in CacheSettingsChange.__struct_fields__]),
        ("mlxctl models pull qwen3:4b", ["qwen3:4b", "qwen3:4b-instruct", "qwen3:4b-thinking"]),
        ("mlxctl bench compare a", ["file,a"]),
        ("mlxctl bench report --out a", ["dir,a"]),
        ("mlxctl serve --port ", []),
        ("mlxctl bench latency -- --po", []),
    ],
)
def test_tab_offers_commands_options_and_values(line: str, offered: list[str]) -> None:
    assert complete(line) == offered


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("mlxctl serve --model ", ["mlxctl-demo", "org/first", "quick", "second"]),
        ("mlxctl chat -m se", ["second"]),
        ("mlxctl models rm org", ["org/first"]),
        ("mlxctl models fit second q", ["quick"]),
        ("mlxctl run q", ["quick", *complete("mlxctl models pull q")]),
    ],
)
def test_tab_offers_models_and_aliases_that_are_safe_in_a_shell(line: str, offered: list[str]) -> None:
    assert complete(line) == offered


def test_invalid_settings_offer_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLXCTL_SERVER_PORT", "eighty")
    assert complete("mlxctl serve --model ") == []


def test_zsh_gets_the_summary_of_each_word() -> None:
    assert answer("mlxctl models pu", shell="zsh").split("\n") == [
        "plain",
        "pull",
        "Download a model from the Hugging Face hub.",
    ]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_script_of_the_shell(shell: str) -> None:
    script = runner.invoke(app, ["completion", shell]).stdout
    assert script == (SCRIPTS / f"mlxctl.{shell}").read_text()
    assert re.search(r"_MLXCTL_COMPLETE=\w+_complete mlxctl", script)


def test_unknown_shell_is_a_usage_error() -> None:
    run = runner.invoke(app, ["completion", "powershell"])
    assert run.exit_code == 2
    assert "No such command 'powershell'. There are bash, zsh, fish." in run.output


@pytest.fixture
def bash(tmp_path: Path) -> Iterator[int]:
    """The terminal of a bash with the script, beside a file."""
    (tmp_path / "one.json").write_text("{}")
    leader, terminal = pty.openpty()
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TERM": "dumb",
    }
    shell = ["bash", "--rcfile", str(SCRIPTS / "mlxctl.bash"), "-i"]
    with subprocess.Popen(
        shell,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=tmp_path,
        env=environment,
        start_new_session=True,
    ) as process:
        os.close(terminal)
        yield leader
        process.kill()
    os.close(leader)


def type_in(bash: int, typed: str) -> str:
    """Type the beginning of a line, and return the line."""
    # Ctrl-A and Ctrl-E: the completed line becomes the argument of `echo`.
    os.write(bash, f"{typed}\x01echo '<\x05>'\n".encode())
    shown = ""
    while (found := re.search(r"\n<(.*)>\r", shown)) is None:
        shown += os.read(bash, 4096).decode()
    return found[1]


def test_tab_in_bash_completes_the_line(bash: int) -> None:
    assert type_in(bash, "mlxctl bench lat\t--ro\t") == "mlxctl bench latency --rounds "
    assert type_in(bash, "mlxctl run qwen3:4b-t\t") == "mlxctl run qwen3:4b-thinking "
    assert type_in(bash, "mlxctl serve --log-level=w\t") == "mlxctl serve --log-level=warning "
    # Bash 3.2 adds a space.
    assert type_in(bash, "mlxctl scheduler set share\t").rstrip() == "mlxctl scheduler set share_rows="
    assert type_in(bash, "mlxctl bench compare one\t") == "mlxctl bench compare one.json "


@pytest.mark.parametrize("line", ["mlxctl ", "mlxctl models rm ", "mlxctl agents show "])
def test_tab_imports_no_heavy_package(line: str) -> None:
    environment = {
        **os.environ,
        "_MLXCTL_COMPLETE": "fish_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": "",
        "PYTHONPROFILEIMPORTTIME": "1",
    }
    command = [sys.executable, "-m", "mlxctl"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    loaded = {name.rpartition("|")[2].strip().partition(".")[0] for name in run.stderr.splitlines()}
    assert "click" in loaded
    assert loaded.isdisjoint(
        {"pydantic", "rich", "asyncio", "httpx", "huggingface_hub", "numpy", "mlx", "jinja2"}
    )
