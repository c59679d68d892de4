"""Saved chats: autosave, search, continue, delete, export."""

import asyncio
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.chat.chat_setup import ChatSetup
from mlxctl.chat.conversation import ChatMessage, ChatOptions
from mlxctl.chat.export import export
from mlxctl.chat.launch import InitialConversation, load_initial_conversation
from mlxctl.chat.messages_json import from_messages, to_messages
from mlxctl.chat.plain_chat import PlainChat
from mlxctl.chat.plain_terminal import PlainTerminal
from mlxctl.chat.session_autosave import SessionAutosave
from mlxctl.chat.tools.toolbox import ToolBox
from mlxctl.ir import (
    DocumentPart,
    ImagePart,
    Message,
    TextDelta,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    text_message,
)
from mlxctl.ir.errors import StoreError
from mlxctl.state.stores import SessionStore

from .screen_driver import Screen, drive
from .scripted_backend import ScriptedBackend, call, text

TEXTS = st.text(min_size=1, max_size=20)


def answers() -> st.SearchStrategy[ChatMessage]:
    calls = st.builds(ToolCallPart, id=TEXTS, name=TEXTS, arguments=st.just('{"a": 1}'))
    thinking = st.lists(st.builds(ThinkingPart, text=TEXTS), max_size=1)
    parts = st.tuples(
        thinking, st.lists(st.builds(TextPart, text=TEXTS), max_size=1), st.lists(calls, max_size=2)
    )
    messages = parts.map(lambda found: Message(role="assistant", parts=(*found[0], *found[1], *found[2])))
    return st.builds(
        ChatMessage, message=messages, is_partial=st.booleans(), thinking_seconds=st.none() | st.just(1.5)
    )


def results() -> st.SearchStrategy[ChatMessage]:
    made = st.builds(ToolResultPart, call_id=TEXTS, content=TEXTS.map(lambda words: (TextPart(text=words),)))
    return st.lists(made, min_size=1, max_size=2).map(
        lambda parts: ChatMessage(message=Message(role="tool", parts=tuple(parts)))
    )


def questions() -> st.SearchStrategy[ChatMessage]:
    data = st.binary(min_size=1, max_size=8)
    images = st.builds(ImagePart, data=data, media_type=st.just("image/png"))
    attached = st.lists(images | st.builds(DocumentPart, data=data, filename=TEXTS), max_size=2)
    parts = st.tuples(attached, st.builds(TextPart, text=TEXTS))
    messages = parts.map(lambda found: Message(role="user", parts=(*found[0], found[1])))
    return st.builds(ChatMessage, message=messages, shown=st.none() | TEXTS)


@given(st.lists(st.tuples(questions(), answers(), results(), answers()), max_size=3), st.text(max_size=10))
def test_saved_messages_round_trip(turns: list[tuple[ChatMessage, ...]], system: str) -> None:
    chat = [item for turn in turns for item in turn]
    messages = json.loads(json.dumps([{"role": "system", "content": system}, *to_messages(chat)]))
    assert from_messages(messages) == (system, chat)


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ("none", "messages: expected a list"),
        ([{"content": "x"}], r"messages\[0\] is not a chat message: it has no 'role'"),
        (
            [{"role": "user", "content": "x"}, {"role": "judge"}],
            r"messages\[1\] .*unknown role 'judge'",
        ),
        ([{"role": "user", "content": [{"type": "container"}]}], "its content is not text"),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/y.png"}}]}],
            "must be a data URL",
        ),
        ([{"role": "assistant", "tool_calls": [{"id": 5}]}], "it has no 'function'"),
        (["words"], r"messages\[0\]"),
    ],
)
def test_invalid_messages_are_named(messages: object, message: str) -> None:
    with pytest.raises(StoreError, match=message):
        from_messages(messages)


def autosave(directory: Path) -> SessionAutosave:
    return SessionAutosave(SessionStore(directory / "chats.db"))


def saved_titles(directory: Path) -> list[str]:
    return [summary.title for summary in SessionStore(directory / "chats.db").search()]


def test_saved_chat_is_found_and_continued(tmp_path: Path) -> None:
    async def have_a_chat(screen: Screen) -> None:
        await screen.ask("My boat is blue")
        await screen.wait_for("I see.")

    async def go_on(screen: Screen) -> None:
        await screen.ask("Something else")
        await screen.wait_for("Of course.")
        await screen.press("f3")
        await screen.wait_for("2 chats")
        await screen.press(*"boat")
        assert "Something else" not in await screen.wait_for("1 chat ")
        await screen.press("enter")
        assert "My boat is blue" in await screen.wait_for("I see.")
        await screen.ask("And now?")
        await screen.wait_for("Blue.")

    drive(
        ScriptedBackend(text("I see.")), have_a_chat, autosave=autosave(tmp_path), system_prompt="Be brief."
    )
    backend = ScriptedBackend(text("Of course."), text("Blue."))
    drive(backend, go_on, autosave=autosave(tmp_path))
    assert [message.text for message in backend.requests[1].messages] == [
        "Be brief.",
        "My boat is blue",
        "I see.",
        "And now?",
    ]
    assert saved_titles(tmp_path) == ["My boat is blue", "Something else"]


def test_stopped_answer_is_saved_as_partial(tmp_path: Path) -> None:
    async def stop_by_beginning_anew(screen: Screen) -> None:
        await screen.ask("Tell me")
        await screen.wait_for("Half an ans")
        await screen.press("ctrl+n")
        await screen.wait_for("New chat.")

    drive(
        ScriptedBackend([TextDelta(text="Half an ans"), 60.0]),
        stop_by_beginning_anew,
        autosave=autosave(tmp_path),
    )
    _, conversation = asyncio.run(
        load_initial_conversation(InitialConversation(is_last=True), ChatOptions(), autosave(tmp_path))
    )
    assert [item.message.text for item in conversation.messages] == ["Tell me", "Half an ans"]
    assert conversation.messages[-1].is_partial


def test_deleting_a_chat_needs_two_presses(tmp_path: Path) -> None:
    async def forget(screen: Screen) -> None:
        await screen.ask("Forget me")
        await screen.wait_for("Gladly.")
        await screen.press("f3")
        await screen.wait_for("1 chat")
        await screen.press("delete")
        await screen.wait_for("Press again to delete")
        assert saved_titles(tmp_path) == ["Forget me"]
        await screen.press("delete")
        await screen.wait_for("No saved chats yet.")

    drive(ScriptedBackend(text("Gladly.")), forget, autosave=autosave(tmp_path))
    assert saved_titles(tmp_path) == []


def test_search_starts_at_the_last_match() -> None:
    backend = ScriptedBackend(call("calculator", '{"expression": "6*7"}'), text("It is forty-two."))

    async def find(screen: Screen) -> None:
        await screen.ask("How much is 6*7?")
        await screen.wait_for("forty-two")
        await screen.press("ctrl+f", *"6*7")
        await screen.wait_for("2 of 2")
        await screen.press("enter")
        await screen.wait_for("1 of 2")
        await screen.press("enter")
        await screen.wait_for("2 of 2")
        await screen.press("x")
        await screen.wait_for("not found")
        await screen.press("escape")
        await screen.wait_for("Ask something")

    drive(backend, find, uses_tools=True)


def highlighted(screen: Screen) -> list[str]:
    """Return the texts in reverse video, without the cursor."""
    strips = screen.app.screen._compositor.render_strips()
    found = [text for strip in strips for text, style, _ in strip if style is not None and style.reverse]
    return [text for text in found if text.strip()]


def test_search_counts_and_highlights_words() -> None:
    lines = "".join(f"- line {number}\n" for number in range(60))
    backend = ScriptedBackend(text(f"A Needle first.\n\n{lines}\nthe last needle"))

    async def find(screen: Screen) -> None:
        await screen.ask("Where is it?")
        await screen.wait_for("the last needle")
        await screen.press("ctrl+f", *"needle")
        await screen.wait_for("2 of 2")
        await screen.settle()
        assert "needle" in highlighted(screen)
        await screen.press("enter")
        await screen.wait_for("A Needle first.")
        assert "Needle" in highlighted(screen)
        await screen.press("escape")
        await screen.settle()
        assert "Needle" not in highlighted(screen)

    drive(backend, find)


def test_exported_chat_can_be_opened(tmp_path: Path) -> None:
    messages = [
        ChatMessage(message=text_message("user", "Hi")),
        ChatMessage(message=text_message("assistant", "Hello")),
    ]
    export(tmp_path / "chat.json", messages, model="m", system_prompt="Be kind.")
    options, conversation = asyncio.run(
        load_initial_conversation(
            InitialConversation(file=tmp_path / "chat.json"), ChatOptions(), SessionAutosave(None)
        )
    )
    assert (options.system_prompt, list(conversation.messages)) == ("Be kind.", messages)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read"),
        ("{", "is not JSON"),
        ('{"messages": [1]}', "contains no conversation"),
        ("{}", "expected a list"),
    ],
)
def test_invalid_chat_file_is_rejected(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "chat.json").write_text(content)
    with pytest.raises(StoreError, match=message):
        asyncio.run(
            load_initial_conversation(
                InitialConversation(file=tmp_path / "chat.json"), ChatOptions(), SessionAutosave(None)
            )
        )


def test_plain_chat_continues_and_saves_a_chat(tmp_path: Path) -> None:
    first = autosave(tmp_path)
    asyncio.run(first.save((ChatMessage(message=text_message("user", "Hi")),), model="m", system_prompt=""))
    again = autosave(tmp_path)
    options, conversation = asyncio.run(
        load_initial_conversation(InitialConversation(is_last=True), ChatOptions(), again)
    )
    backend = ScriptedBackend(text("Still here."))
    setup = ChatSetup(
        backend=backend, options=options, tools=ToolBox(), autosave=again, conversation=conversation
    )
    terminal = PlainTerminal(io.StringIO("Are you there?\n"), io.StringIO(), io.StringIO())
    chat = PlainChat(setup, terminal=terminal)
    assert asyncio.run(chat.run()) == 0
    _, kept_now = asyncio.run(
        load_initial_conversation(InitialConversation(is_last=True), ChatOptions(), autosave(tmp_path))
    )
    assert [item.message.text for item in kept_now.messages] == ["Hi", "Are you there?", "Still here."]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--continue", "--open", "x.json"], "exclude each other"),
        (["--continue", "--no-save"], "--no-save cannot be combined"),
        (["--continue"], "there is no earlier chat to continue"),
        (["--session", "beef"], "no single chat id starts with 'beef'"),
        (["--open", "nowhere.json"], "cannot read 'nowhere.json'"),
    ],
)
def test_invalid_start_options_are_reported_in_one_line(
    tmp_path: Path, flags: list[str], message: str
) -> None:
    command = [sys.executable, "-m", "mlxctl", "chat", "--plain", *flags]
    environment = {
        "XDG_STATE_HOME": str(tmp_path),
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": ":".join(filter(None, sys.path)),
    }
    ended = subprocess.run(
        command, capture_output=True, text=True, input="", env=environment, timeout=60, check=False
    )
    assert ended.returncode in (1, 2)
    assert message in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_quitting_during_an_answer_saves_its_beginning(tmp_path: Path) -> None:
    async def quit_early(screen: Screen) -> None:
        await screen.ask("Tell me")
        await screen.wait_for("Half an ans")
        await screen.press("ctrl+q")

    drive(ScriptedBackend([TextDelta(text="Half an ans"), 60.0]), quit_early, autosave=autosave(tmp_path))
    last = asyncio.run(autosave(tmp_path).load_last())
    assert [item.message.text for item in last.messages] == ["Tell me", "Half an ans"]


def test_plain_chat_shows_what_commands_do(tmp_path: Path) -> None:
    questions, others = "one\ntwo\n", "/copy\n/load nosuch\n/help\n/quit\nthree"
    lines = f"{questions}/messages\n/delete 1\n/fork\n/stats\n/retry 9\n{others}"
    shown = io.StringIO()
    setup = ChatSetup(
        backend=ScriptedBackend(text("First."), text("Second.")),
        options=ChatOptions(),
        tools=ToolBox(),
        autosave=autosave(tmp_path),
    )
    terminal = PlainTerminal(io.StringIO(lines), io.StringIO(), shown)
    assert asyncio.run(PlainChat(setup, terminal=terminal).run()) == 0
    assert [line.partition("  (")[0] for line in shown.getvalue().splitlines()[:9]] == [
        "  1 you    one",
        "  2 model  First.",
        "  3 you    two",
        "  4 model  Second.",
        "Deleted messages 1 and 2 (1 question, 1 answer).",
        "Chats are not saved, so there is no copy to make.",
        "Statistics are shown below answers.",
        "There is no message 9: this chat has 2 messages.",
        "/copy works in the full-screen chat only (without --plain).",
    ]
    assert "mlxctl: no single chat id starts with 'nosuch'" in shown.getvalue()
    assert "/retry [N]" in shown.getvalue()
