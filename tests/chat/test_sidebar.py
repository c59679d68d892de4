"""Wide terminals: chats beside the conversation, text in the middle."""

from pathlib import Path

from mlxctl.chat.conversation import ChatMessage
from mlxctl.chat.session_autosave import SessionAutosave
from mlxctl.chat.widgets.composer import Composer
from mlxctl.chat.widgets.transcript import TranscriptPage
from mlxctl.ir import text_message
from mlxctl.state.stores import SessionStore

from .screen_driver import Screen, drive
from .scripted_backend import ScriptedBackend, text


def test_wide_terminal_has_a_list_of_chats(tmp_path: Path) -> None:
    autosave = SessionAutosave(SessionStore(tmp_path / "chats.db"))
    former = (ChatMessage(message=text_message("user", "My boat is blue")),)

    async def interact(screen: Screen) -> None:
        await autosave.save(former, model="", system_prompt="")
        autosave.start_new_chat()
        await screen.wait_for("ready")
        assert "F9" not in screen.text()
        assert "My boat" not in screen.text()
        await screen.resize(200, 30)
        await screen.wait_for("My boat is blue")
        assert "F9 Chats" in screen.text()
        page, column = (screen.app.screen.query_one(kind).region for kind in (TranscriptPage, Composer))
        assert (page.x, page.width) == (63, 108)
        assert column.x == page.x
        await screen.ask("Is it fast?")
        await screen.wait_for("● Is it fast?")
        await screen.press("f9", "down", "enter")
        await screen.wait_for("● My boat is blue")
        assert [item.message.text for item in screen.app.screen._chat.conversation.messages] == [
            "My boat is blue"
        ]
        await screen.press("x")
        await screen.wait_for("│ x")
        await screen.press("f9", "f9")
        await screen.wait_gone("● My boat is blue")
        assert isinstance(screen.app.screen.focused, Composer)

    drive(ScriptedBackend(text("Very.")), interact, autosave=autosave, size=(120, 30))
