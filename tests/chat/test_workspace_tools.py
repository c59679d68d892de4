"""Built-in file and shell tools: results, limits, and approval."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from mlxctl.chat.tools.toolbox import ToolBox
from mlxctl.chat.tools.workspace import MAX_ENTRIES, MAX_FILE_BYTES, MAX_READ_CHARACTERS, WorkspaceTools
from mlxctl.ir import ToolCallPart, ToolResultPart
from tests.server.process import is_alive, wait_for

from .screen_driver import Screen, built_in_tools, drive
from .scripted_backend import ScriptedBackend, call, text


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "secret.txt").write_text("do not read")
    return tmp_path / "work"


def made_call(name: str, **arguments: object) -> ToolCallPart:
    return ToolCallPart(id="call_1", name=name, arguments=json.dumps(arguments))


def run(directory: Path, name: str, *, shell_seconds: float = 60.0, **arguments: object) -> ToolResultPart:
    box = ToolBox([WorkspaceTools(directory, shell_seconds=shell_seconds)])
    return asyncio.run(box.run(made_call(name, **arguments)))


def test_written_file_is_listed_and_read_again(directory: Path) -> None:
    assert run(directory, "write_file", path="a/b.txt", content="one\ntwo\n").text == (
        "created a/b.txt with 8 bytes"
    )
    assert run(directory, "write_file", path="a/b.txt", content="three").text.startswith("replaced a/b.txt")
    assert run(directory, "list_directory").text == "a/"
    assert run(directory, "list_directory", path="a").text == "b.txt  5 bytes"
    assert run(directory, "read_file", path="a/b.txt").text == "three"


def test_long_file_is_read_in_parts(directory: Path) -> None:
    (directory / "long.txt").write_text("".join(f"{number}\n" for number in range(1, 1201)))
    first = run(directory, "read_file", path="long.txt").text
    assert first.endswith("500\n[lines 1 to 500 of 1,200; first_line 501 continues]")
    last = run(directory, "read_file", path="long.txt", first_line="1199", num_lines=50).text
    assert last == "1199\n1200\n[lines 1,199 to 1,200 of 1,200]"
    (directory / "wide.txt").write_text(("x" * (MAX_READ_CHARACTERS - 10) + "\n") * 2)
    assert "[lines 1 to 1 of 2; first_line 2 continues]" in run(directory, "read_file", path="wide.txt").text


def test_output_of_the_file_tools_is_limited(directory: Path) -> None:
    for number in range(MAX_ENTRIES + 1):
        (directory / f"{number:04}").touch()
    listed = run(directory, "list_directory").text.splitlines()
    assert (len(listed), listed[-1]) == (
        MAX_ENTRIES + 1, f"[only {MAX_ENTRIES} entries are listed; there are more]"
    )  # fmt: skip
    (directory / "one_line").write_text("x" * (MAX_READ_CHARACTERS + 1))
    read = run(directory, "read_file", path="one_line").text
    assert read.endswith("x\n[the rest of this line is left out]")
    with (directory / "big").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    assert "has more than 2 MB" in run(directory, "read_file", path="big").text


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("read_file", {"path": "none.txt"}, "No such file"),
        ("read_file", {"path": "."}, "is a directory; list_directory lists it"),
        ("read_file", {"path": "pipe"}, "is not a regular file"),
        ("read_file", {"path": "binary"}, "is not a text file"),
        ("read_file", {"path": "a\0b"}, "is not a path"),
        ("read_file", {"path": "binary", "mode": "x"}, "unknown field `mode`"),
        ("read_file", {}, "missing required field `path`"),
        ("list_directory", {"path": "binary"}, "is a file; read_file reads it"),
        ("write_file", {"path": "pipe", "content": ""}, "is not a regular file"),
        ("write_file", {"path": "new", "content": "x" * (MAX_FILE_BYTES + 1)}, "has more than 2 MB"),
    ],
)
def test_failed_file_call_is_an_error_result(
    directory: Path, name: str, arguments: dict[str, object], reason: str
) -> None:
    os.mkfifo(directory / "pipe")
    (directory / "binary").write_bytes(b"a\0b")
    result = run(directory, name, **arguments)
    assert result.is_error
    assert reason in result.text


@pytest.mark.parametrize(
    ("path", "is_outside"),
    [("a.txt", False), ("b/../a.txt", False), ("../secret.txt", True), ("link", True), ("/etc/passwd", True)],
)
def test_paths_outside_the_directory_are_asked_about_each_time(
    directory: Path, path: str, is_outside: bool
) -> None:
    (directory / "link").symlink_to(directory.parent / "secret.txt")
    box = built_in_tools(directory)
    asked = made_call("read_file", path=path)
    assert box.asks_before(asked, asks_always=False)
    box.allow("read_file")
    assert box.asks_before(asked, asks_always=True) is is_outside


def test_call_that_cannot_run_is_not_asked_about(directory: Path) -> None:
    box = built_in_tools(directory)
    assert not box.asks_before(made_call("shell", file="cat"), asks_always=True)
    assert box.asks_before(made_call("shell", command="cat"), asks_always=False)
    assert all(tool.spec.is_strict for tool in WorkspaceTools(directory).tools)


def test_command_gets_the_directory_and_no_keys(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLXCTL_API_KEY", "secret")
    result = run(directory, "shell", command="pwd; echo ${MLXCTL_API_KEY:-no key}; cat")
    assert (result.text, result.is_error) == (f"{directory.resolve()}\nno key", False)
    failed = run(directory, "shell", command="echo wrong >&2; exit 3")
    assert (failed.text, failed.is_error) == ("error: wrong\n[exit code 3]", True)


def test_output_of_a_command_keeps_its_begin_and_end(directory: Path) -> None:
    output = run(directory, "shell", command="echo begin; yes | head -c 300000; echo end").text
    assert output.startswith("begin\ny")
    assert output.endswith("y\nend")
    assert "bytes left out]" in output
    assert len(output) < 25_000


@pytest.mark.parametrize(
    ("command", "output"),
    [
        (
            r"echo begin; printf '\211PNG\r\n\032\n\0\0'; echo; echo end",
            "begin\n[11 bytes {}, a PNG image{}]\nend\n",
        ),
        ("head -c 300000 /dev/zero", "[300,000 bytes {}{}]"),
        (r"printf '\317\360\350\342\345\362'", "[6 bytes {}{}]"),
        (r"printf 'Gr\374\337e'", "Gr\ufffd\ufffde"),
    ],
)
def test_bytes_that_are_no_text_become_a_note(command: str, output: str, directory: Path) -> None:
    wanted = output.format("that are no text", "; not shown")
    assert run(directory, "shell", command=command).text == wanted.rstrip("\n")


def test_command_is_killed_with_its_children_at_the_time_limit(directory: Path) -> None:
    command = "sleep 60 & echo $! > child; wait"
    result = run(directory, "shell", command=command, shell_seconds=1.5)
    assert (result.text, result.is_error) == ("error: [stopped after 1.5 seconds]", True)
    child = int((directory / "child").read_text())
    wait_for(lambda: not is_alive(child), seconds=20)


def test_background_processes_end_with_their_command(directory: Path) -> None:
    result = run(directory, "shell", command="sleep 60 & echo $! > child; echo started")
    assert result.text == "started"
    child = int((directory / "child").read_text())
    wait_for(lambda: not is_alive(child), seconds=20)


LIST = ("list_directory", "{}")


def test_call_waits_for_the_user(directory: Path) -> None:
    (directory / "a.txt").write_text("hi")
    backend = ScriptedBackend(call(*LIST), text("Done."))

    async def interact(screen: Screen) -> None:
        await screen.wait_for("ready")
        await screen.ask("/tools on")
        await screen.wait_for("Set: tools on")
        await screen.ask("List my files")
        await screen.wait_for("Run list_directory?")
        await screen.press("ctrl+y")
        await screen.wait_for("Done.")

    drive(backend, interact, tools=built_in_tools(directory))
    assert backend.requests[1].messages[-1].tool_results[0].text == "a.txt  2 bytes"


def test_allowed_tool_runs_without_asking_inside_the_directory(directory: Path) -> None:
    outside = call("list_directory", '{"path": ".."}')
    backend = ScriptedBackend(call(*LIST), call(*LIST), outside, text("Done."))

    async def interact(screen: Screen) -> None:
        await screen.wait_for("ready")
        await screen.ask("List my files")
        await screen.wait_for("Always run it")
        await screen.press("right", "right", "enter")
        seen = await screen.wait_for("outside the working")
        assert "Always run it" not in seen
        await screen.press("enter")
        await screen.wait_for("Done.")

    drive(backend, interact, size=(60, 20), tools=built_in_tools(directory), uses_tools=True)
    results = [request.messages[-1].tool_results[0].text for request in backend.requests[1:]]
    assert results == ["[the directory is empty]", "[the directory is empty]", "the user refused this call"]


def test_arguments_of_a_call_are_shown_as_they_run(directory: Path) -> None:
    arguments = {"path": "x.sh", "content": "first\nsecond \u202eevil\u200b\x1b[2J"}
    backend = ScriptedBackend(call("write_file", json.dumps(arguments)), text("Done."))

    async def interact(screen: Screen) -> None:
        await screen.wait_for("ready")
        await screen.ask("Write")
        seen = await screen.wait_for('path: "x.sh"')
        assert "second \\u202eevil\\u200b␛[2J" in seen
        await screen.press("ctrl+y")
        await screen.wait_for("Done.")

    drive(backend, interact, tools=built_in_tools(directory), uses_tools=True)
    assert (directory / "x.sh").read_text() == arguments["content"]


def test_stopping_the_answer_kills_the_command(directory: Path) -> None:
    backend = ScriptedBackend(call("shell", '{"command": "echo $$ > pid; sleep 60"}'))

    async def interact(screen: Screen) -> None:
        await screen.wait_for("ready")
        await screen.ask("Wait")
        await screen.wait_for("Run shell?")
        await screen.press("ctrl+y")
        async with asyncio.timeout(60):
            while not (directory / "pid").exists() or not (directory / "pid").read_text():
                await asyncio.sleep(0.01)
        await screen.press("escape")
        assert "← no result" in await screen.wait_for("Stopped.")

    drive(backend, interact, tools=built_in_tools(directory), uses_tools=True)
    child = int((directory / "pid").read_text())
    wait_for(lambda: not is_alive(child), seconds=20)
