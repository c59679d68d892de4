"""The command line: cheap help, defaults from settings, exit codes."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mlxctl.cli import COMMANDS, app
from mlxctl.state.settings import ServerSettings

runner = CliRunner()


def modules_after(*arguments: str) -> set[str]:
    """Return the top-level modules that a run imports."""
    program = (
        "import sys\nfrom mlxctl.cli import app\n"
        f"try: app({list(arguments)!r})\nexcept SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in run.stderr.split()}


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["serve", "--help"], []])
def test_help_and_version_import_no_heavy_package(arguments: list[str]) -> None:
    loaded = modules_after(*arguments)
    assert "click" in loaded
    assert loaded.isdisjoint(
        {
            "falcon",
            "granian",
            "pydantic",
            "textual",
            "rich",
            "asyncio",
            "mlx",
            "mlx_lm",
            "transformers",
            "tokenizers",
        }
    )


def test_command_table_has_the_summary_of_each_command() -> None:
    page = runner.invoke(app, ["--help"]).output
    for name, command in COMMANDS.items():
        own_page = " ".join(runner.invoke(app, [name, "--help"]).output.split())
        assert f"  {name}" in page
        assert command.summary in own_page


def test_version_lists_mlx_packages() -> None:
    result = runner.invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output.startswith("mlxctl ")
    assert all(word in result.output for word in ("Python 3.", "mlx 0.", "mlx-lm 0."))


@pytest.mark.parametrize(
    ("arguments", "same"),
    [
        (["help"], ["--help"]),
        (["help", "models", "ls"], ["models", "ls", "--help"]),
        (["version"], ["--version"]),
        (["-v"], ["--version"]),
    ],
)
def test_help_and_version_also_work_as_commands(arguments: list[str], same: list[str]) -> None:
    result, expected = runner.invoke(app, arguments), runner.invoke(app, same)
    assert (result.exit_code, result.output) == (0, expected.output)


def test_help_shows_defaults_and_an_example() -> None:
    page = " ".join(runner.invoke(app, ["serve", "--help"]).output.split())
    assert f"[default: {ServerSettings().port}]" in page
    assert f"[default: {ServerSettings().max_queue}]" in page
    assert "Example: mlxctl serve" in page


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [
        (["--verson"], "--version"),
        (["serve", "--prot", "1"], "--port"),
        (["bench", "latency", "--round", "3"], "--rounds"),
        (["completion", "--hepl"], "--help"),
        (["serve", "--kvbits", "8"], "--kv-bits"),
    ],
)
def test_unknown_option_suggests_the_closest(arguments: list[str], nearest: str) -> None:
    run = runner.invoke(app, arguments)
    assert run.exit_code == 2
    unknown = next(word for word in arguments if word.startswith("--"))
    assert f"No such option: {unknown}. Did you mean {nearest}?" in run.output


@pytest.mark.parametrize(
    ("unknown", "hint"),
    [
        ("pull", "Did you mean 'models pull'?"),
        ("download", "Did you mean 'models pull'?"),
        ("pin", "Did you mean 'models pin' or 'cache pin'?"),
        ("sevre", "Did you mean 'serve'?"),
        ("models list", "Did you mean 'ls'?"),
        ("models delete", "Did you mean 'rm'?"),
        ("models run", "Did you mean 'mlxctl run'?"),
        ("config edit", "There are path, show, init."),
    ],
)
def test_unknown_command_names_the_one_that_is_meant(unknown: str, hint: str) -> None:
    run = runner.invoke(app, unknown.split(), prog_name="mlxctl")
    assert run.exit_code == 2
    assert f"No such command '{unknown.split()[-1]}'. {hint}" in run.output


def test_unknown_option_without_a_close_one_gets_no_suggestion() -> None:
    for arguments in (["serve", "--zzz"], ["run", "--model"]):
        assert f"Error: No such option: {arguments[-1]}\n" in runner.invoke(app, arguments).output


@pytest.mark.parametrize(
    ("arguments", "fix"),
    [
        (["run", "demo", "why", "so"], "takes nothing after PROMPT, but there is 'so'; put PROMPT in quotes"),
        (["models", "ps", "demo"], "mlxctl models ps takes only options, not 'demo'"),
        (["serve", "demo", "--model", "demo"], "model 'demo' is given twice"),
        (["chat", "demo"], "'demo' is a model, and `chat` takes a prompt: mlxctl chat --model demo"),
        (["launch", "claude", "demo"], "'demo' is a model: mlxctl launch claude --model demo"),
        (["bench", "latency", "demo"], "'demo' is not an option; name a model with --model"),
        (
            ["serve", "org/new-model", "--port", "0"],
            "to download it from the hub: mlxctl models pull org/new-model",
        ),
    ],
)
def test_arguments_in_the_wrong_place_get_the_fix(arguments: list[str], fix: str) -> None:
    run = runner.invoke(app, arguments)
    assert run.exit_code != 0
    assert fix in run.output


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        # What the parser rejects, and what mlxctl does.
        ("serve --port eighty", 2),
        ("serve --no-such-flag", 2),
        ("sevre", 2),
        ("serve --port 99999", 2),
        ("serve --api-key ''", 2),
        ("serve --kv-bits 3", 2),
        ("serve demo --model demo", 2),
        ("serve demo --config nothing.toml", 2),
        ("serve demo --speculation draft", 2),
        ("run demo hi --url http://127.0.0.1:9 --local", 2),
        ("run demo ''", 2),
        ("chat --no-save --continue", 2),
        ("chat demo", 2),
        ("cache ls --disk --url http://127.0.0.1:9", 2),
        ("models ps --url ftp://host", 2),
        ("models alias best", 2),
        ("models import file.gguf --bits 7", 2),
        ("models import file.gguf --name a/b/c", 2),
        ("scheduler set text --url http://127.0.0.1:9", 2),
        ("admin limits set --for-model demo --local", 2),
        ("audit search --since soon", 2),
        ("launch emacs", 2),
        ("bench latency demo", 2),
        ("service install --port 99999", 2),
        # What fails at work.
        ("run no-such-model hi --local", 1),
        ("models info no-such-model", 1),
        ("models import no-such-file.gguf", 1),
        ("models ps --url http://127.0.0.1:9", 1),
        ("bench compare no-such-file.json no-such-file.json", 1),
        ("config path", 0),
    ],
)
def test_wrong_call_exits_with_2_and_failed_work_with_1(arguments: str, code: int) -> None:
    done = runner.invoke(app, shlex.split(arguments), input="")
    assert done.exit_code == code, done.output


def test_commands_are_imported_when_called() -> None:
    loaded_early = modules_after_import()
    assert not {command.target.partition(":")[0] for command in COMMANDS.values()} & loaded_early


def modules_after_import() -> set[str]:
    program = "import sys, mlxctl.cli; print(*sys.modules)"
    return set(
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout.split()
    )


def test_output_that_is_not_utf8_shows_question_marks() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    command = [sys.executable, "-m", "mlxctl", "config", "path", "--config", "Einstellungen-für-✓.toml"]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "Einstellungen-für-?.toml\n".encode("latin-1"))


# macOS has no /dev/full; a file that may have no byte is as good.
FULL = ("/dev/full", "No space left on device") if Path("/dev/full").exists() else ("$1", "File too large")


@pytest.mark.parametrize("arguments", [["--help"], ["config", "show"], ["models", "recommend"]])
def test_output_to_a_full_disk_is_a_one_line_error(arguments: list[str], tmp_path: Path) -> None:
    output, reason = FULL
    script = f'ulimit -f 0; output={output}; shift; exec "$@" >"$output"'
    done = subprocess.run(
        [
            "sh",
            "-c",
            script,
            "sh",
            str(tmp_path / "output"),
            sys.executable,
            "-B",
            "-m",
            "mlxctl",
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith(f"mlxctl: standard output cannot be written: {reason}")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_no_error(closed: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m mlxctl config show {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_incomplete_package_is_one_line_that_names_doctor(tmp_path: Path) -> None:
    (tmp_path / "msgspec.py").write_text("raise ImportError('no C extension')")
    command = [sys.executable, "-m", "mlxctl", "serve"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    expected = "mlxctl: a package is incomplete: no C extension; `mlxctl doctor` names the fix\n"
    assert done.stderr == expected
