"""`mlxctl run`: one prompt, answered on standard output."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from click.testing import CliRunner, Result

from mlxctl.cli import app
from mlxctl.library.demo import MODEL_DIR
from tests.library.tiny_hub import TinyHub, running
from tests.server.hosted import hosting
from tests.server.process import ServerProcess

# Not the server that a developer runs.
NO_SERVER = {"MLXCTL_SERVER_PORT": "1"}
Ask = Callable[..., Result]


def run(*arguments: str, piped: str = "", command: str = "run", **environment: str) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(app, [command, *arguments], input=piped, env=NO_SERVER | environment)


def run_process(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run `mlxctl run` as a process."""
    return subprocess.run(
        [sys.executable, "-m", "mlxctl", "run", *arguments],
        stdin=subprocess.DEVNULL,
        env={**os.environ, **NO_SERVER, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def ask(demo_server: ServerProcess) -> Ask:
    """Return `run` with the server."""
    return partial(run, MLXCTL_SERVER_PORT=str(urlsplit(demo_server.url).port))


def test_the_answer_is_on_standard_output_and_statistics_are_not() -> None:
    done = run_process("demo", "Hello!")
    assert (done.returncode, done.stdout) == (0, "Hello! How can I help you?\n")
    assert "completion tokens" in done.stderr
    assert "tokens/s" in done.stderr


def test_json_has_the_answer_and_its_token_counts(ask: Ask) -> None:
    answer = json.loads(ask("demo", "--json", piped="Hello!").stdout)
    assert answer["content"] == "Hello! How can I help you?"
    assert answer["usage"]["completion_tokens"] > answer["usage"]["thinking_tokens"] > 0
    assert answer["finish_reason"] == "stop"


def test_quiet_prints_the_answer_alone(ask: Ask) -> None:
    done = ask("demo", "--quiet", "Hello!")
    assert done.stdout == "Hello! How can I help you?\n"
    assert "tokens" not in done.stderr


def test_a_failed_answer_leaves_standard_output_empty(ask: Ask) -> None:
    done = ask("demo", "word " * 10_000)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "prompt is too long" in done.stderr


def test_closed_standard_error_does_not_stop_the_engine() -> None:
    command = f"{shlex.quote(sys.executable)} -m mlxctl run demo Hello 2>&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Hello!")


def test_an_unknown_name_is_not_looked_for_on_the_hub() -> None:
    done = run("no-such-model", "Hello!")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "no-such-model" in done.stderr
    assert "downloading" not in done.stderr


def test_a_short_name_downloads_the_repository_once(tmp_path: Path) -> None:
    files = {file.name: file.read_bytes() for file in MODEL_DIR.iterdir()}
    repository = "mlx-community/Qwen3-4B-4bit"
    with running(TinyHub(files={repository: files})) as hub:
        first = run_process("qwen3:4b", "Hello!", **hub.server_settings(tmp_path))
    second = run_process("Qwen3-4B", "Hello!", **hub.server_settings(tmp_path))
    assert f"{repository} is not on this machine; downloading it" in first.stderr
    assert "downloading" not in second.stderr
    assert first.stdout == second.stdout == "Hello! How can I help you?\n"


def test_a_running_server_that_has_the_model_is_used(demo_server: ServerProcess, ask: Ask) -> None:
    before = last_request(demo_server)
    done = ask("demo", "Hello!")
    chatted = ask("--model", "demo", "Hello!", command="chat")
    own = ask("demo", "--local", "Bye!")
    assert done.stdout == chatted.stdout == "Hello! How can I help you?\n"
    assert all(f"using the server at {demo_server.url}" in each.stderr for each in (done, chatted))
    assert "using the server" not in own.stderr
    assert last_request(demo_server) == before + 2


def test_a_server_that_wants_a_key_is_named_and_the_model_loaded_here() -> None:
    with hosting(None, "--api-key", "secret") as guarded:
        done = run("demo", "Hello!", MLXCTL_SERVER_PORT=str(urlsplit(guarded.url).port))
    assert done.stdout == "Hello! How can I help you?\n"
    assert f"the model is loaded here: the server at {guarded.url} needs an API key" in done.stderr


def test_a_server_and_the_local_engine_exclude_each_other() -> None:
    done = run("--url", "http://127.0.0.1:1", "--local", "Hello!", command="chat")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--url and --local exclude each other" in done.stderr


def last_request(server: ServerProcess) -> int:
    """Return the number of the server's last request."""
    requests = httpx.get(f"{server.url}/requests").json()["requests"]
    return max((request["number"] for request in requests), default=0)


def test_a_cut_answer_is_explained_on_standard_error(ask: Ask) -> None:
    done = ask("demo", "--quiet", "--max-tokens", "3", "Hello!")
    assert (done.exit_code, done.stdout) == (0, "")
    expected = "(The thinking was cut before the answer at 3 tokens, the limit. --max-tokens N raises"
    assert expected in done.stderr


def test_files_of_the_prompt_are_sent_and_those_of_piped_text_are_not(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("one two three four five six seven eight nine ten")
    (tmp_path / "diff.py").write_text("")
    prompt = f"Hello! @{tmp_path / 'notes.md'} @{tmp_path / 'gone.md'}"
    done = ask("demo", "--json", prompt, piped=f"@{tmp_path / 'diff.py'}")
    assert json.loads(done.stdout)["usage"]["prompt_tokens"] > 40
    assert f"(with {tmp_path / 'notes.md'})" in done.stderr
    assert f"(no file {tmp_path / 'gone.md'}; sent as text)" in done.stderr
    assert "diff.py" not in done.stderr
