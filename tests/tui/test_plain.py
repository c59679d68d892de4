"""Lines of text: what a pipe gets on each of its ends, and what the shell sees at the end."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator

import pytest
from server.process import ServerProcess, serving


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with serving(None) as running:
        yield running


def chat(*arguments: str, typed: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mlxctl", "chat", *arguments]
    return subprocess.run(command, input=typed, capture_output=True, text=True, timeout=60, check=False, env=os.environ)


def test_a_question_from_a_pipe_is_answered_by_an_engine_of_our_own() -> None:
    run = chat("--plain", "--temperature", "0", typed="Hello!\n")
    assert (run.returncode, run.stdout) == (0, "Hello! How can I help you?\n")
    assert "(thought for" in run.stderr


def test_each_line_is_a_question_of_one_conversation(server: ServerProcess) -> None:
    run = chat("--plain", "--url", server.url, "--temperature", "0", typed="Hello!\n\nHello!\n")
    assert run.returncode == 0
    assert len(run.stdout.splitlines()) == 2


def test_without_a_terminal_it_is_plain_and_says_so(server: ServerProcess) -> None:
    run = chat("--url", server.url, "--temperature", "0", typed="Hello!\n")
    assert run.stdout == "Hello! How can I help you?\n"
    assert "no terminal on both ends" in run.stderr


@pytest.mark.parametrize(("command", "instead"), [("chat", "--plain"), ("top", "--once")])
def test_a_terminal_that_shows_no_screens_gets_lines(server: ServerProcess, command: str, instead: str) -> None:
    controller, terminal = pty.openpty()
    run = [sys.executable, "-m", "mlxctl", command, "--url", server.url]
    environment = os.environ | {"TERM": "dumb"}
    os.write(controller, b"\x04")
    ended = subprocess.run(run, stdin=terminal, stdout=terminal, stderr=subprocess.PIPE, env=environment, timeout=60, check=True)
    assert f"a terminal of the kind 'dumb' (TERM) shows no screens, so this is {instead}" in ended.stderr.decode()
    os.close(terminal)
    os.close(controller)


def test_nobody_at_the_url_is_one_line_and_exit_code_1() -> None:
    run = chat("--plain", "--url", "http://127.0.0.1:1", typed="Hello!\n")
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == (
        "mlxctl: no server answers at http://127.0.0.1:1/v1: the connection is refused, or there is no such host\n"
    )


def test_a_question_that_fails_is_said_and_counts(server: ServerProcess) -> None:
    run = chat("--plain", "--url", server.url, typed="word " * 20_000 + "\n")
    assert run.returncode == 1
    assert "prompt is too long" in run.stderr


def test_a_model_that_is_not_there_is_named(server: ServerProcess) -> None:
    run = chat("--plain", "--url", server.url, "--model", "gpt-9", typed="Hello!\n")
    assert run.returncode == 1
    assert "model 'gpt-9' is not served here; available: mlxctl-demo" in run.stderr


def test_a_reader_that_has_enough_ends_it_quietly(server: ServerProcess) -> None:
    command = f"yes Hello! | {sys.executable} -m mlxctl chat --plain --temperature 0 --url {server.url} | head -1"
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout == "Hello! How can I help you?\n"
    assert "Traceback" not in run.stderr
