"""Keys, slash commands, history, themes and the clipboard."""

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from textual._xterm_parser import XTermParser
from textual.events import Key
from textual.widgets import Input

from mlxctl.chat.app import ChatApp
from mlxctl.chat.chat_backend import BackendModel, RemoteBackend
from mlxctl.chat.chat_commands import COMMANDS, SlashCommand, UnknownCommand, completions, read_input
from mlxctl.chat.chat_setup import ChatSetup
from mlxctl.chat.conversation import ChatOptions
from mlxctl.chat.external_editor import edit_text, editor_command
from mlxctl.chat.option_values import describe_options, set_option
from mlxctl.chat.preferences import Preferences, detect_terminal_theme
from mlxctl.chat.terminal_app import clipboard_command, copy_with_command
from mlxctl.chat.tools.toolbox import ToolBox
from mlxctl.chat.widgets.composer import Composer
from mlxctl.ir import SamplingOptions, TextDelta
from mlxctl.ir.errors import ServerUnreachable, StoreError
from tests.inference.scripted_server import ScriptedServer, listening

from .screen_driver import Screen, drive
from .scripted_backend import ScriptedBackend, end, text


async def send(screen: Screen, words: str) -> None:
    """Set the input's text and press Enter."""
    screen.app.screen.query_one(Composer).set_text(words)
    await screen.press("enter")


async def converse(screen: Screen, *steps: tuple[str, str]) -> None:
    """Send each text and wait for the words beside it."""
    for sent, words in steps:
        await send(screen, sent)
        await screen.wait_for(words)


def typed(screen: Screen) -> str:
    """Return the text of the input."""
    return screen.app.screen.query_one(Composer).text


def test_text_typed_after_enter_becomes_the_next_question() -> None:
    backend = ScriptedBackend(text("One."), text("Two."))

    async def interact(screen: Screen) -> None:
        await screen.press(*"first", "enter", *"second")
        await screen.wait_for("One.")
        assert typed(screen) == "second"
        await screen.press("enter")
        await screen.wait_for("Two.")
        await screen.press("up")
        assert typed(screen) == "second"
        await screen.press("up")
        assert typed(screen) == "first"

    drive(backend, interact)
    assert [request.messages[-1].text for request in backend.requests] == ["first", "second"]


def test_questions_during_an_answer_are_queued_and_asked_in_order() -> None:
    first_ends = asyncio.Event()
    backend = ScriptedBackend([TextDelta(text="Half"), first_ends, end()], text("Two."), text("Three."))

    async def interact(screen: Screen) -> None:
        await send(screen, "first")
        await screen.wait_for("Half")
        await send(screen, "second")
        await screen.wait_for("queued 1: second")
        await send(screen, "third")
        await send(screen, "fourth")
        await screen.wait_for("queued 3: fourth")
        await screen.press("up")
        assert typed(screen) == "fourth"
        first_ends.set()
        await screen.wait_for("Three.")
        await screen.wait_gone("queued")
        assert typed(screen) == "fourth"

    drive(backend, interact, size=(80, 40))
    assert [request.messages[-1].text for request in backend.requests] == ["first", "second", "third"]


def test_queued_questions_return_to_the_input_when_the_answer_is_stopped() -> None:
    backend = ScriptedBackend([TextDelta(text="Half"), 60.0])

    async def interact(screen: Screen) -> None:
        await send(screen, "first")
        await screen.wait_for("Half")
        await send(screen, "second")
        await screen.press(*"draft", "escape")
        await screen.wait_for("Stopped.")
        await screen.wait_gone("queued 1")
        assert typed(screen) == "second\ndraft"

    drive(backend, interact)
    assert len(backend.requests) == 1


@pytest.mark.parametrize(
    ("sent", "options"),
    [
        ("seed 7", ChatOptions(seed=7)),
        ("temperature default", ChatOptions()),
        ('stop ["a", "b"]', ChatOptions(stop=("a", "b"))),
        ("tools ask", ChatOptions(uses_tools=True, asks_before_tools=True)),
        ('json_schema {"type": "object"}', ChatOptions(json_schema={"type": "object"})),
    ],
)
def test_set_reads_each_kind_of_value(sent: str, options: ChatOptions) -> None:
    assert set_option(ChatOptions(temperature=None), sent) == options


@pytest.mark.parametrize(
    ("sent", "range_of_server"),
    [
        ("temperature 101", "from 0 to 100"),
        ("temperature nan", "from 0 to 100"),
        ("repetition_penalty 0", "above 0 and at most 10"),
        ("top_k -2", "at least -1"),
        ("presence_penalty 3", "from -2 to 2"),
        ("seed 9223372036854775808", "from -9223372036854775808 to 9223372036854775807"),
        ("max_tokens 1e3", "a whole number of at least 1"),
    ],
)
def test_set_refuses_what_the_server_refuses(sent: str, range_of_server: str) -> None:
    with pytest.raises(ValueError, match=range_of_server):
        set_option(ChatOptions(), sent)


@pytest.mark.parametrize(
    "sent", ["temperature", "temperature hot", "thinking maybe", "tools yes", "stop [1]", "seed 1.5"]
)
def test_set_rejects_unreadable_values(sent: str) -> None:
    with pytest.raises(ValueError, match=r"needs a value|must be"):
        set_option(ChatOptions(), sent)


async def undo(screen: Screen) -> None:
    """Delete the last turn, and confirm it."""
    await send(screen, "/undo")
    await screen.wait_for("This removes messages")
    await screen.press("enter")


def test_editor_command_is_the_one_of_the_user(tmp_path: Path) -> None:
    assert editor_command({"EDITOR": "code --wait", "VISUAL": ""}) == ["code", "--wait"]
    assert editor_command({"EDITOR": "", "PATH": str(tmp_path)}) is None
    script = "import pathlib, sys; file = pathlib.Path(sys.argv[1]); file.write_text(file.read_text() + 'b')"
    assert edit_text("a", [sys.executable, "-c", script]) == "a\nb"
    with pytest.raises(StoreError, match="ended with 3"):
        edit_text("a", [sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(StoreError, match="saved no text: No such file or directory"):
        edit_text("a", ["rm"])


def test_up_shows_earlier_questions_and_keeps_the_draft() -> None:
    backend = ScriptedBackend(text("One."), text("Two."))

    async def interact(screen: Screen) -> None:
        await send(screen, "first")
        await screen.wait_for("One.")
        await screen.press(*"draft", "up")
        assert typed(screen) == "draft"
        await screen.press("up")
        assert typed(screen) == "first"
        assert "Down: back to your draft" in screen.text()
        await screen.press("down")
        assert typed(screen) == "draft"
        await screen.press("up", "up", "enter")
        await screen.wait_for("Two.")
        assert typed(screen) == "draft"

    drive(backend, interact)


@pytest.mark.parametrize(
    ("sent", "question"),
    [
        ("hello", "hello"),
        ("/usr/bin/env is what?", "/usr/bin/env is what?"),
        ("/* comment */", "/* comment */"),
        ("// comment", "// comment"),
        ("//help me", "/help me"),
        ("/", "/"),
        ("5 / 2", "5 / 2"),
    ],
)
def test_question_may_contain_slashes(sent: str, question: str) -> None:
    assert read_input(sent) == question


@pytest.mark.parametrize("name", [name for command in COMMANDS for name in command.names])
def test_every_slash_name_is_a_command(name: str) -> None:
    assert isinstance(read_input(f"/{name}"), SlashCommand)


@pytest.mark.parametrize("sent", ["/nonsense", "/quit now", "/Help-me"])
def test_unknown_command_is_named(sent: str) -> None:
    read = read_input(sent)
    assert isinstance(read, UnknownCommand)
    assert sent.split()[0] in read.message


def test_every_command_is_reachable_without_function_keys() -> None:
    assert [
        command for command in COMMANDS if not command.names and not command.keys.startswith("ctrl+")
    ] == []
    assert completions("/mo") == ["/model", "/monitor"]


def test_slash_commands_run_and_are_not_sent(tmp_path: Path) -> None:
    backend = ScriptedBackend(text("One."))

    async def interact(screen: Screen) -> None:
        await screen.wait_for("ready")
        await send(screen, "/help")
        await screen.wait_for("Help (Esc closes)")
        await screen.press("escape")
        await send(screen, "/nonsense")
        await screen.wait_for("Unknown command /nonsense")
        assert typed(screen) == "/nonsense"
        await screen.press("ctrl+a", "ctrl+k")
        await send(screen, "/model another")
        await screen.wait_for("another is ready")
        await send(screen, "//help me")
        await screen.wait_for("One.")
        await send(screen, f"/export {tmp_path}/chat.md")
        await screen.wait_for("Saved to")
        await send(screen, "/new")
        await screen.wait_for("New chat.")

    drive(backend, interact)
    assert [request.messages[-1].text for request in backend.requests] == ["/help me"]
    assert "/help me" in (tmp_path / "chat.md").read_text()


def test_command_palette_runs_commands() -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("ready")
        await screen.press("ctrl+p")
        await screen.wait_for("/chats")
        await screen.press(*"sampling")
        await screen.wait_gone("/chats")
        await screen.press("enter")
        await screen.wait_for("Apply")

    drive(ScriptedBackend(), interact)


@pytest.mark.parametrize("keys", [["ctrl+c", "ctrl+c"], ["ctrl+d"], ["ctrl+q"], [*"/bye", "enter"]])
def test_usual_quit_keys_quit(keys: list[str]) -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("ready")
        await screen.press(*keys)
        assert screen.app._exit

    drive(ScriptedBackend(), interact)


def test_ctrl_d_deletes_in_nonempty_input() -> None:
    async def interact(screen: Screen) -> None:
        await screen.press("a", "b", "home", "ctrl+d")
        assert typed(screen) == "b"
        assert not screen.app._exit

    drive(ScriptedBackend(), interact)


@pytest.mark.parametrize("sequence", ["\x1b\r", "\n"])
def test_option_enter_inserts_a_line_break(sequence: str) -> None:
    pressed = [event.key for event in XTermParser().feed(sequence) if isinstance(event, Key)]
    assert pressed == ["ctrl+j"]


def test_backslash_enter_inserts_a_line_break() -> None:
    async def interact(screen: Screen) -> None:
        await screen.press("a", "backslash", "enter", "b")
        assert typed(screen) == "a\nb"

    drive(ScriptedBackend(), interact)


def test_ready_notice_stays_above_an_early_question() -> None:
    class Slow(ScriptedBackend):
        async def open(self) -> BackendModel:
            await asyncio.sleep(0.5)
            return await super().open()

    async def interact(screen: Screen) -> None:
        await send(screen, "Early")
        seen = await screen.wait_for("At last.")
        assert (
            seen.index("scripted is ready")
            < seen.index("Early", seen.index("ready"))
            < seen.index("At last.")
        )
        await send(screen, "/model another")
        await send(screen, "Later")
        seen = await screen.wait_for("Again.")
        assert seen.index("another is ready") < seen.index("Later") < seen.index("Again.")

    drive(Slow(text("At last."), text("Again.")), interact)


def test_status_shows_waiting_time_and_unreachable_server() -> None:
    class Mortal(ScriptedBackend):
        is_alive = True

        async def check(self) -> None:
            if not self.is_alive:
                raise ServerUnreachable("http://there", "the connection is refused")

    leaves = asyncio.Event()
    backend = Mortal([leaves, ServerUnreachable("http://there", "gone")])

    async def interact(screen: Screen) -> None:
        await send(screen, "Hello")
        assert re.search(r"scripted  waiting \d+ s", await screen.wait_for("waiting "))
        leaves.set()
        await screen.wait_for("scripted  server not reachable")
        screen.app.screen._check()  # type: ignore[attr-defined]
        await screen.wait_for("scripted  ready")
        backend.is_alive = False
        screen.app.screen._check()  # type: ignore[attr-defined]
        await screen.wait_for("scripted  server not reachable")

    drive(backend, interact)


def chat_app(preferences: Preferences, backend: ScriptedBackend | None = None, **options: Any) -> ChatApp:
    """A new chat without tools, with these preferences."""
    setup = ChatSetup(backend=backend or ScriptedBackend(), options=ChatOptions(**options), tools=ToolBox())
    return ChatApp(setup, preferences=preferences)


def test_theme_is_saved(tmp_path: Path) -> None:
    preferences = Preferences(tmp_path / "state" / "screen.json")

    async def choose(name: str | None) -> str:
        app = chat_app(preferences)
        async with app.run_test() as pilot:
            screen = Screen(app, pilot)
            await screen.wait_for("ready")
            if name is not None:
                await send(screen, f"/theme {name}")
                await screen.settle()
            return app.theme

    assert asyncio.run(choose(None)) == "textual-dark"
    assert not (tmp_path / "state").exists()
    assert asyncio.run(choose("textual-light")) == "textual-light"
    assert asyncio.run(choose(None)) == "textual-light"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        '{"theme": 7}',
        '{"theme": "no such"}',
        '{"theme": "ansi-dark"}',
        "[" * 9000,
        "x" * 20_000,
    ],
)
def test_damaged_preferences_fall_back_to_the_default(content: str, tmp_path: Path) -> None:
    (tmp_path / "screen.json").write_text(content)
    app = chat_app(Preferences(tmp_path / "screen.json"))
    assert app.theme == "textual-dark"


def test_light_terminal_gets_a_light_theme() -> None:
    assert detect_terminal_theme({"COLORFGBG": "0;15"}) == "textual-light"
    assert detect_terminal_theme({"COLORFGBG": "15;0"}) == detect_terminal_theme({}) == "textual-dark"


def test_copy_uses_the_system_clipboard_command(tmp_path: Path) -> None:
    for name in ("pbcopy", "wl-copy", "xclip"):
        (tmp_path / name).write_text(f"#!/bin/sh\nexec cat > {tmp_path}/copied\n")
        (tmp_path / name).chmod(0o755)
    path = {"PATH": str(tmp_path)}
    assert clipboard_command(path, "darwin") == ["pbcopy"]
    assert clipboard_command(path | {"SSH_TTY": "/dev/x"}, "darwin") is None
    assert clipboard_command(path | {"WAYLAND_DISPLAY": "w"}, "linux") == ["wl-copy"]
    assert clipboard_command(path | {"DISPLAY": ":0"}, "linux") == ["xclip", "-selection", "clipboard"]
    assert clipboard_command({"PATH": "/nowhere"}, "darwin") is None
    assert copy_with_command([str(tmp_path / "pbcopy")], "Grüße\n")
    assert (tmp_path / "copied").read_text() == "Grüße\n"
    assert not copy_with_command(["/nowhere/pbcopy"], "x")


def test_copy_notification_names_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    command = tmp_path / "wl-copy"
    command.write_text(f"#!/bin/sh\nexec /bin/cat > {tmp_path}/copied\n")
    command.chmod(0o755)
    for name in ("SSH_TTY", "SSH_CONNECTION", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WAYLAND_DISPLAY", "w")
    monkeypatch.setenv("PATH", str(tmp_path))

    async def interact(screen: Screen) -> None:
        await send(screen, "Hello")
        await screen.wait_for("Hi <you>!")
        await screen.press("ctrl+o")
        await screen.wait_for("with wl-copy")

    drive(ScriptedBackend(text("Hi <you>!")), interact)
    assert (tmp_path / "copied").read_text() == "Hi <you>!"


def test_preferences_file_is_json(tmp_path: Path) -> None:
    Preferences(tmp_path / "screen.json").save_theme("nord")
    assert json.loads((tmp_path / "screen.json").read_text()) == {"theme": "nord"}


def test_sampling_values_are_remembered(tmp_path: Path) -> None:
    preferences = Preferences(tmp_path / "screen.json")
    preferences.save_theme("nord")

    async def change_temperature() -> None:
        app = chat_app(preferences, seed=7)
        async with app.run_test() as pilot:
            screen = Screen(app, pilot)
            await screen.wait_for("ready")
            await screen.press("f2")
            await screen.wait_for("Apply")
            screen.app.screen.query_one("#temperature", Input).value = "0.25"
            await screen.press("ctrl+s")
            await screen.wait_for("Ask something")

    async def first_request() -> SamplingOptions:
        backend = ScriptedBackend(text("Hi!"))
        app = chat_app(preferences, backend, top_p=0.5)
        async with app.run_test() as pilot:
            screen = Screen(app, pilot)
            await screen.wait_for("Remembered settings: temperature 0.25")
            await send(screen, "Hello")
            await screen.wait_for("Hi!")
        return backend.requests[0].sampling

    asyncio.run(change_temperature())
    sampling = asyncio.run(first_request())

    assert (sampling.temperature, sampling.top_p, sampling.seed) == (0.25, 0.5, None)
    assert preferences.theme == "nord"


@pytest.mark.parametrize(
    "sampling", ['{"temperature": -1}', '{"top_k": "x"}', "[]", "7", '{"thinking": "so"}']
)
def test_invalid_remembered_sampling_is_ignored(sampling: str, tmp_path: Path) -> None:
    (tmp_path / "screen.json").write_text(f'{{"theme": "nord", "sampling": {sampling}}}')
    preferences = Preferences(tmp_path / "screen.json")
    assert preferences.sampling.beneath(ChatOptions()) == ChatOptions()
    assert preferences.theme == "nord"


def test_statistics_below_answers_can_be_hidden_for_good(tmp_path: Path) -> None:
    preferences = Preferences(tmp_path / "screen.json")

    async def play(*steps: tuple[str, str]) -> tuple[str, str]:
        """Return the screen after an answer, and after further steps."""
        app = chat_app(preferences, ScriptedBackend(text("Hi!")))
        async with app.run_test(notifications=True) as pilot:
            screen = Screen(app, pilot)
            await screen.wait_for("ready")
            await converse(screen, ("Hello", "context 101"))
            await screen.settle()
            before = screen.text()
            await converse(screen, *steps)
            return before, screen.text()

    shown = "cached 80 of 100"
    before, after = asyncio.run(play(("/stats", "Statistics are hidden below answers")))
    assert (shown in before, shown in after) == (True, False)
    assert shown not in asyncio.run(play())[0]


def test_editor_key_works_while_the_input_has_the_focus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "true")

    async def interact(screen: Screen) -> None:
        await screen.wait_for("scripted is ready")
        await screen.press("h", "f6")
        # This test has no terminal that an editor could use.
        await screen.wait_for("No editor can be opened here.")

    drive(ScriptedBackend(), interact)


def test_list_of_models_says_where_they_are_and_which_cannot_chat() -> None:
    far = {"id": "far", "kind": "text", "state": "loaded", "remote": "studio"}
    cards = [{"id": "other", "state": "not_loaded"}, far, {"id": "vectors", "kind": "embeddings"}]

    async def listed() -> list[tuple[str, str, bool]]:
        async with listening(ScriptedServer(b"", models=json.dumps({"data": cards}).encode())) as server:
            backend = RemoteBackend(f"{server.url}/v1")
            await backend.open()
            models = await backend.list_models()
            await backend.close()
        return [(model.name, model.note, model.is_usable) for model in models]

    assert asyncio.run(listed()) == [
        ("other", "not loaded", True),
        ("far", "on studio", True),
        ("vectors", "for embeddings", False),
    ]


def test_arrows_choose_a_command_that_enter_runs() -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("ready")
        await screen.press(*"/st", "down")
        await screen.wait_for("> /stop")
        await screen.press("down")
        await screen.wait_for("> /stats")
        await screen.press("up", "tab")
        assert typed(screen) == "/stop "
        await screen.press("ctrl+u", "/", "up", "up")
        await screen.wait_for("> /monitor")
        await screen.press("ctrl+u", *"/he", "tab", "enter")
        await screen.wait_for("Help (Esc closes)")

    drive(ScriptedBackend(), interact)


def test_stop_strings_are_shown_as_they_were_set() -> None:
    options = set_option(ChatOptions(), 'stop ["END", "\\n"]')
    assert describe_options(options) == r"stop 'END', '\n'"


def test_beginning_of_a_command_lists_the_commands_that_continue_it() -> None:
    async def interact(screen: Screen) -> None:
        await screen.press("/")
        await screen.wait_for("arrows or the next letters choose, Enter runs")
        await screen.press(*"mess")
        await screen.wait_for("/messages [N]        Select a message")
        await screen.press("tab")
        await screen.wait_gone("Select a message")
        assert typed(screen) == "/messages "

    drive(ScriptedBackend(), interact)


def test_help_wraps_within_its_column_on_a_narrow_screen() -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("scripted is ready")
        await screen.press("f1")
        await screen.wait_for("Stop the answer and")
        await screen.settle()
        lines = screen.text().splitlines()
        [place] = [number for number, line in enumerate(lines) if "Stop the answer and" in line]
        assert lines[place + 1].index("keep its text") == lines[place].index("Stop the answer and")

    drive(ScriptedBackend(), interact, size=(60, 40))
