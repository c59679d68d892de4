"""The plain chat: pipes, a terminal dialog, and exit codes."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from server.process import ServerProcess

from mlxctl.cli import app

from .echo_server import echo_server

# Not the server that a developer runs.
NO_SERVER = {"MLXCTL_SERVER_PORT": "1"}
_INTERRUPT = "\x03"


def run_on_terminal(url: str, *steps: tuple[str, str], arguments: tuple[str, ...] = (), code: int = 0) -> str:
    """Run a plain chat on a pseudo-terminal; return everything shown.

    Each step is a text to wait for and the keys to type then.
    """
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "mlxctl", "chat", "--plain", "--no-save", "--url", url, *arguments]
    environment = os.environ | {"TERM": "xterm"}
    process = subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment, start_new_session=True
    )
    os.close(terminal)
    shown, place, deadline = "", 0, time.monotonic() + 60
    for words, keys in steps:
        # Keys that arrive before the prompt are echoed by the terminal itself.
        while words not in shown[place:] or not (keys == _INTERRUPT or shown.endswith(("> ", ". ", "y/N] "))):
            assert time.monotonic() < deadline, f"{words!r} did not come: {shown}"
            if select.select([controller], [], [], 0.2)[0]:
                shown += os.read(controller, 65536).decode(errors="replace")
        place = len(shown)
        if keys == _INTERRUPT:
            process.send_signal(signal.SIGINT)
        else:
            os.write(controller, keys.encode())
    assert process.wait(timeout=60) == code
    os.close(controller)
    return shown


def chat(*arguments: str, typed: str) -> Result:
    """Run `mlxctl chat` in this process."""
    return CliRunner().invoke(app, ["chat", *arguments], input=typed, env=NO_SERVER)


def test_piped_text_is_one_prompt_for_a_local_engine() -> None:
    command = [sys.executable, "-m", "mlxctl", "chat", "--temperature", "0"]
    run = subprocess.run(
        command,
        input="Hello!\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | NO_SERVER,
    )
    assert (run.returncode, run.stdout) == (0, "Hello! How can I help you?\n")
    assert run.stderr.startswith("(thought for")


@pytest.mark.parametrize(
    ("arguments", "typed", "question"),
    [
        ([], "a\n\n  b\n/help\n", "a\n\n  b\n/help"),
        (["explain this"], "  indented\n", "explain this\n\n  indented"),
        (["--plain", "/help <this>"], "", "/help <this>"),
    ],
)
def test_prompt_is_the_argument_followed_by_piped_text(
    arguments: list[str], typed: str, question: str
) -> None:
    with echo_server() as url:
        run = chat(*arguments, "--url", url, typed=typed)
    assert (run.exit_code, run.stdout) == (0, f"You said: {question}\n")


@pytest.mark.parametrize(("arguments", "typed"), [([], ""), (["--plain"], " \n\n"), (["  "], "")])
def test_empty_prompt_is_rejected(arguments: list[str], typed: str) -> None:
    run = chat(*arguments, typed=typed)
    assert (run.exit_code, run.stdout) == (2, "")
    assert run.stderr == "mlxctl: the prompt is empty: give a question as an argument or on standard input\n"


def test_interrupted_prompt_keeps_the_partial_answer_and_exits_with_130(demo_server: ServerProcess) -> None:
    command = [sys.executable, "-m", "mlxctl", "chat", "--url", demo_server.url, "--temperature", "0"]
    command += ["--max-tokens", "2000"]
    # The demo model goes on counting to the limit.
    question = "count to 20 and repeat hello hello hello hello hello hello hello"
    process = subprocess.Popen(
        [*command, question], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    _, diagnostics = process.communicate(timeout=60)
    assert (process.returncode, diagnostics.endswith(b"(stopped)\n")) == (130, True)


def test_invalid_utf8_becomes_replacement_characters() -> None:
    with echo_server() as url:
        command = [sys.executable, "-m", "mlxctl", "chat", "--url", url]
        run = subprocess.run(command, input=b"caf\xe9 \x1b[31m", capture_output=True, timeout=60, check=True)
    assert run.stdout.decode() == "You said: caf\ufffd \x1b[31m\n"


@pytest.mark.parametrize(
    ("argument", "said"), [("grüß".encode(), "grüß"), (b"caf\xe9", "caf\ufffd")], ids=["utf-8", "latin-1"]
)
def test_argument_is_utf8_in_every_locale(argument: bytes, said: str) -> None:
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    with echo_server() as url:
        command = [sys.executable, "-m", "mlxctl", "chat", "--url", url, argument]
        run = subprocess.run(
            command,
            env=environment | {"PYTHONIOENCODING": "utf-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=True,
        )
    assert run.stdout.decode() == f"You said: {said}\n"


def test_loading_server_is_waited_for() -> None:
    with echo_server(num_refusals=1) as url:
        run = chat("Hi", "--url", url, typed="")
    assert (run.exit_code, run.stdout) == (0, "You said: Hi\n")
    assert "the model is still being loaded. Retrying for up to 300 s." in run.stderr


def test_compact_continues_with_a_summary() -> None:
    with echo_server() as url:
        shown = run_on_terminal(
            url,
            ("/help", "first\r"),
            ("You said: first", "second\r"),
            ("You said: second", "/compact\r"),
            ("A summary replaces the earlier question with its answer.", "read @nowhere.txt\r"),
            ("No file nowhere.txt.", "n\r"),
            ("> ", "/messages\r"),
            ("You said: second", "/quit\r"),
        )
    assert "You said: Summarize our conversation" in shown
    assert "You said: read" not in shown


def test_run_shows_on_a_terminal_what_it_waits_for() -> None:
    controller, terminal = pty.openpty()
    with echo_server(num_refusals=1) as url:
        done = subprocess.run(
            [sys.executable, "-m", "mlxctl", "run", "echo", "Hi", "--url", url],
            env=os.environ | {"TERM": "xterm"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=terminal,
            timeout=60,
            check=True,
        )
    os.close(terminal)
    shown = os.read(controller, 65536).decode()
    os.close(controller)
    assert done.stdout == b"You said: Hi\n"
    assert f"\x1b[2Kconnecting to {url} 0 s" in shown
    assert "\x1b[2Kwaiting for the first token 0 s\r\x1b[2K" in shown


def test_missing_api_key_names_the_option() -> None:
    with echo_server(needs_key=True) as url:
        run = chat("Hi", "--url", url, typed="")
        assert (
            run.stderr
            == f"mlxctl: the server at {url} needs an API key; give one with --api-key or MLXCTL_API_KEY\n"
        )
        assert chat("Hi", "--url", url, "--api-key", "right", typed="").stdout == "You said: Hi\n"


def test_terminal_dialog_has_editing_history_and_commands() -> None:
    with echo_server() as url:
        shown = run_on_terminal(
            url,
            ("ready", "hellp\x7fo\r"),
            ("You said: hello", "\x1b[A\x01(\r"),
            ("You said: (hello", "/help\r"),
            ("type // instead", "/nonsense\r"),
            ("Unknown command /nonsense", "a\\\r"),
            ("", "b\r"),
            ("You said: a\r\nb", "esc \x16\x1b\r"),
            ("You said: esc ␛", "/quit\r"),
        )
    assert "^[[A" not in shown


def test_message_is_edited_with_the_editor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nread text < "$1"; echo "$text, edited" > "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.delenv("VISUAL", raising=False)
    with echo_server() as url:
        run_on_terminal(
            url,
            ("ready", "one\n"),
            ("You said: one", "two\n"),
            ("You said: two", "/edit 1\n"),
            ("This replaces messages 1 to 4 (2 questions, 2 answers). Send? [y/N]", "y\n"),
            ("You said: one, edited", "/messages\n"),
            ("1 you    one, edited", "/edit 3\n"),
            ("There is no message 3", "/quit\n"),
        )


def test_tool_calls_are_confirmed_on_the_terminal() -> None:
    with echo_server() as url:
        shown = run_on_terminal(
            url,
            ("ready", "use a tool\r"),
            ('(call of calculator({"expression": "6*7"}), built-in)', "\r"),
            ("You said: the user refused this call", "use a tool\r"),
            ("Run it?", "y\r"),
            ("You said: 42", "/set temperature 0.5\r"),
            ("Set: temperature 0.5, tools ask", "/quit\r"),
            arguments=("--ask-tools",),
        )
    assert "Traceback" not in shown


def test_tool_can_be_allowed_for_the_whole_chat() -> None:
    with echo_server() as url:
        shown = run_on_terminal(
            url,
            ("ready", "/tools\r"),
            ("Tools are off. /tools on", "/tools on\r"),
            ("Set: tools on", "list files\r"),
            ("Run it? [always/y/N]", "always\r"),
            ("You said: ", "list files\r"),
            ("You said: ", "look outside\r"),
            ("/ is outside the working directory", "\r"),
            ("You said: the user refused this call", "/stats\r"),
            ("Statistics are shown below answers.", "/quit\r"),
        )
    assert shown.count("Run it? [always/y/N]") == 1
    assert shown.count("Run it? [y/N]") == 1


@pytest.mark.parametrize("moment", ["initialize", "tools/call"])
def test_interrupt_continues_without_an_mcp_server_that_hangs(tmp_path: Path, moment: str) -> None:
    script = str(Path(__file__).parent / "mcp_echo_server.py")
    arguments = ["-S", script, *(["silent"] if moment == "initialize" else [])]
    servers = {"files": {"command": sys.executable, "args": arguments}}
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    hanging = [
        ("Waiting for MCP server 'files'. Ctrl-C continues without it.", _INTERRUPT),
        ("mlxctl: MCP server 'files' is skipped. The chat continues without it.", "hello\r"),
    ]
    if moment == "tools/call":
        hanging = [
            ("ready", "hang\r"),
            ("Run it?", "y\r"),
            ("y\r\n", _INTERRUPT),
            ("(Stopped. Partial answer kept.", "hello\r"),
        ]
    with echo_server() as url:
        run_on_terminal(
            url, *hanging, ("You said: hello", "/quit\r"), arguments=("--mcp-config", str(config))
        )


def test_tools_that_ask_are_not_offered_without_a_terminal() -> None:
    with echo_server() as url:
        run = chat("--tools", "list files", "--url", url, typed="")
    assert "there is no tool 'list_directory'; there are: calculator, get_time" in run.stdout


def test_confirmed_tools_need_a_terminal() -> None:
    run = chat("--ask-tools", "Hi", typed="")
    assert (run.exit_code, run.stdout) == (2, "")
    assert "ask before a call: standard input must be a terminal" in run.stderr


@pytest.mark.parametrize(("command", "instead"), [("chat", "--plain"), ("top", "--once")])
def test_dumb_terminal_gets_plain_output(demo_server: ServerProcess, command: str, instead: str) -> None:
    controller, terminal = pty.openpty()
    run = [sys.executable, "-m", "mlxctl", command, "--url", demo_server.url]
    environment = os.environ | {"TERM": "dumb"}
    os.write(controller, b"\x04")
    ended = subprocess.run(
        run, stdin=terminal, stdout=terminal, stderr=subprocess.PIPE, env=environment, timeout=60, check=True
    )
    assert f"a 'dumb' terminal (TERM) has no full screen, so this is {instead}" in ended.stderr.decode()
    os.close(terminal)
    os.close(controller)


def test_unreachable_url_is_one_line_and_exit_code_1() -> None:
    run = chat("--plain", "--url", "http://127.0.0.1:1", typed="Hello!\n")
    assert (run.exit_code, run.stdout) == (1, "")
    assert run.stderr == (
        "mlxctl: no server answers at http://127.0.0.1:1/v1:"
        " the connection is refused, or there is no such host;"
        " `mlxctl serve` starts one, --url names another\n"
    )


def test_failed_question_sets_the_exit_code(demo_server: ServerProcess) -> None:
    run = chat("--plain", "--url", demo_server.url, typed="word " * 20_000 + "\n")
    assert run.exit_code == 1
    assert "prompt is too long" in run.stderr


def test_unknown_model_is_named(demo_server: ServerProcess) -> None:
    run = chat("--plain", "--url", demo_server.url, "--model", "gpt-9", typed="Hello!\n")
    assert run.exit_code == 1
    assert "model 'gpt-9' is not served here; available: mlxctl-demo" in run.stderr


def test_closed_pipe_ends_without_traceback(demo_server: ServerProcess) -> None:
    command = f"{sys.executable} -m mlxctl chat Hello! --temperature 0 --url {demo_server.url} | true"
    run = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    assert "Traceback" not in run.stderr
