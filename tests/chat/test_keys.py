"""Order of keys, Ctrl-C in dialogs, the running tool and notifications."""

import asyncio
from pathlib import Path

import pytest
from textual import events

from mlxctl.ir import TextDelta
from tests.chat.screen_driver import Screen, built_in_tools, drive
from tests.chat.scripted_backend import ScriptedBackend, call, text


async def type_ahead(screen: Screen, *keys: str) -> None:
    """Press keys without waiting for the effect of each."""
    for key in keys:
        screen.app.post_message(events.Key(key, key if len(key) == 1 else None))


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["a", "b", "c", "backspace", "backspace", "X", "Y"], "│ aXY "),
        (["a", "b", "c", "ctrl+u", "X"], "│ X "),
        (["a", "b", "left", "X"], "│ aXb "),
    ],
)
def test_letters_do_not_overtake_editing_keys(keys: list[str], expected: str) -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("scripted is ready")
        await type_ahead(screen, *keys)
        await screen.wait_for(expected)

    drive(ScriptedBackend(), interact)


def test_letters_do_not_overtake_editing_keys_in_a_dialog() -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("scripted is ready")
        await screen.ask("/image")
        await screen.wait_for("Attach an image")
        await type_ahead(screen, *"/nope", "backspace", "backspace", "t", "enter")
        await screen.wait_for("cannot read '/not'")

    drive(ScriptedBackend(), interact)


@pytest.mark.parametrize(
    ("command", "title"),
    [
        ("/help", "Help (Esc closes)"),
        ("/set", "System prompt"),
        ("/chats", "Chats (Enter"),
        ("/model", "Choose a model"),
        ("/image", "Attach an image"),
    ],
)
def test_ctrl_c_closes_a_dialog(command: str, title: str) -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("scripted is ready")
        await screen.ask(command)
        await screen.wait_for(title)
        await screen.press("ctrl+c")
        await screen.wait_gone(title)
        assert screen.app.is_running

    drive(ScriptedBackend(), interact)


@pytest.mark.parametrize("asks_always", [False, True])
def test_ctrl_c_at_an_approval_stops_the_answer(tmp_path: Path, asks_always: bool) -> None:
    backend = ScriptedBackend(call("shell", '{"command": "touch made"}'), text("Done."))

    async def interact(screen: Screen) -> None:
        await screen.wait_for("scripted is ready")
        await screen.ask("Make a file")
        await screen.wait_for("Run shell?")
        await screen.press("ctrl+c")
        seen = await screen.wait_for("Stopped. Partial answer kept")
        assert "Run shell?" not in seen

    tools = built_in_tools(tmp_path)
    drive(backend, interact, tools=tools, uses_tools=True, asks_before_tools=asks_always)
    assert len(backend.requests) == 1
    assert list(tmp_path.iterdir()) == []


def test_status_names_a_running_tool(tmp_path: Path) -> None:
    backend = ScriptedBackend(call("shell", '{"command": "sleep 60"}'), [TextDelta(text="Done.")])

    async def interact(screen: Screen) -> None:
        await screen.wait_for("scripted is ready")
        await screen.ask("Sleep")
        await screen.wait_for("Run shell?")
        await screen.press("ctrl+y")
        await screen.wait_for("running shell ")
        await screen.press("escape")
        await screen.wait_gone("running shell")

    drive(backend, interact, tools=built_in_tools(tmp_path), uses_tools=True)


def test_notifications_stay_visible_after_many() -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("scripted is ready")
        for number in range(30):
            screen.app.notify(f"note {number}")
            await asyncio.sleep(0)
        await screen.wait_for("note 29")
        assert len(screen.app.screen.query("ToastHolder")) < 10

    drive(ScriptedBackend(), interact)
