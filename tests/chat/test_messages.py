"""Selecting a message of the chat: copy, edit, retry, fork, delete."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from textual.widgets import TextArea

from mlxctl.chat.answer_statistics import AnswerStatistics
from mlxctl.chat.conversation import ChatMessage, ChatOptions, Conversation, describe
from mlxctl.chat.widgets.message_bar import MessageBar
from mlxctl.chat.widgets.question import QuestionWidget
from mlxctl.ir import Message, TextPart, ToolCallPart, ToolResultPart, text_message
from mlxctl.ir.errors import InvalidRequest

from .screen_driver import Screen, drive
from .scripted_backend import ScriptedBackend, text
from .test_commands import send, typed

CALL = ToolCallPart(id="c1", name="calculator", arguments='{"expression": "6*7"}')
RESULT = ToolResultPart(call_id="c1", content=(TextPart(text="42"),))
STATISTICS = AnswerStatistics(prompt_tokens=100, cached_tokens=80, completion_tokens=7)


def three_turns() -> Conversation:
    """Three questions; the second answer calls a tool."""
    return Conversation(
        [
            ChatMessage(message=text_message("user", "alpha?")),
            ChatMessage(message=text_message("assistant", "Alpha."), statistics=STATISTICS),
            ChatMessage(message=text_message("user", "beta?")),
            ChatMessage(message=Message(role="assistant", parts=(CALL,))),
            ChatMessage(message=Message(role="tool", parts=(RESULT,))),
            ChatMessage(message=text_message("assistant", "Beta.")),
            ChatMessage(message=text_message("user", "gamma?")),
            ChatMessage(message=text_message("assistant", "Gamma.")),
        ]
    )


def roles_and_texts(conversation: Conversation) -> list[str]:
    request = conversation.request("tiny", ChatOptions(), ())
    return [f"{message.role}: {message.text}" for message in request.messages]


def converse(
    interact: Callable[[Screen], Awaitable[None]], *, backend: ScriptedBackend | None = None, size: int = 40
) -> ScriptedBackend:
    """Open a chat of three turns; return its backend."""
    backend = backend or ScriptedBackend()

    async def wait_and_interact(screen: Screen) -> None:
        await screen.wait_for("Gamma.")
        await screen.wait_for("scripted  ready")
        await interact(screen)

    drive(backend, wait_and_interact, size=(80, size), conversation=three_turns())
    return backend


def test_answer_is_one_entry_with_its_tool_calls_and_results() -> None:
    entries = three_turns().entries
    assert [entry.text for entry in entries] == ["alpha?", "Alpha.", "beta?", "Beta.", "gamma?", "Gamma."]
    assert describe(entries[2:5]) == "messages 3 to 5 (2 questions, 1 answer, 1 tool call)"


@pytest.mark.parametrize(
    ("number", "scope", "left"),
    [
        ("3", "message", ["user: alpha?", "assistant: Alpha.", "user: gamma?", "assistant: Gamma."]),
        ("4", "message", ["user: alpha?", "assistant: Alpha.", "user: beta?\n\ngamma?", "assistant: Gamma."]),
        ("2", "after", ["user: alpha?", "assistant: Alpha."]),
        ("1", "message", ["user: beta?", "assistant: ", "tool: ", "assistant: Beta.", "user: gamma?"]),
    ],
)
def test_request_alternates_after_a_deletion(number: str, scope: str, left: list[str]) -> None:
    conversation = three_turns()
    conversation.remove(conversation.within(conversation.find(number), scope))  # type: ignore[arg-type]
    assert roles_and_texts(conversation)[: len(left)] == left


@pytest.mark.parametrize("number", ["0", "7", "x", "-1", ""])
def test_unknown_message_number_is_an_error(number: str) -> None:
    with pytest.raises(ValueError, match=r"this chat has 6 messages|Expected the number"):
        three_turns().find(number)


def test_selected_message_is_copied_and_shows_its_statistics() -> None:
    async def interact(screen: Screen) -> None:
        await screen.press("f7")
        await screen.wait_for("Message 6 of 6, answer")
        await screen.press("up", "up")
        await screen.wait_for("Message 4 of 6, answer, 1 tool call")
        await screen.press("home", "down", "c")
        await screen.wait_for("Message 2 of 6, answer: 7 tokens  cached 80 of 100")
        await screen.wait_for("Copied 6 characters")
        assert screen.app._clipboard == "Alpha."
        await screen.press("escape")
        await screen.wait_gone("Message 2 of 6")
        await screen.press("h", "i")
        assert typed(screen) == "hi"

    converse(interact)


def test_escape_twice_selects_the_last_message() -> None:
    async def interact(screen: Screen) -> None:
        await screen.press("escape", "escape")
        await screen.wait_for("Message 6 of 6")

    converse(interact)


def test_text_typed_during_a_selection_goes_to_the_input_and_deletes_nothing() -> None:
    async def interact(screen: Screen) -> None:
        await screen.press("f7", *"/he")
        await screen.wait_for("/help")
        assert typed(screen) == "/he"
        await screen.press("ctrl+u", "f7", *"da", "enter")
        await screen.settle()
        assert "Gamma." in screen.text()

    converse(interact, backend=ScriptedBackend(text("Fine.")))


def test_click_selects_a_message_and_the_input_keeps_the_focus() -> None:
    async def interact(screen: Screen) -> None:
        await screen._pilot.click(screen.app.screen.query(QuestionWidget)[1])
        await screen.wait_for("Message 3 of 6, your question")
        await screen.press("d")
        assert typed(screen) == "d"
        await screen._pilot.click(MessageBar, offset=(12, 1))
        await screen.wait_for("editing message 3")

    converse(interact)


def test_edited_question_replaces_what_follows_and_the_draft_returns() -> None:
    async def interact(screen: Screen) -> None:
        await screen.press(*"draft")
        await screen.press("f7", "home", "down", "down", "e")
        await screen.wait_for("editing message 3: Enter replaces 3 to 6, Esc cancels")
        assert typed(screen) == "beta?"
        await screen.press("escape")
        assert typed(screen) == "draft"
        await screen.wait_gone("editing message")
        await send(screen, "/edit 4")
        await screen.wait_for("editing message 3")
        await screen.press("x", "enter")
        await screen.wait_for("New beta.")
        assert "Gamma." not in screen.text()

    backend = converse(interact, backend=ScriptedBackend(text("New beta.")))
    assert [message.text for message in backend.requests[0].messages] == ["alpha?", "Alpha.", "beta?x"]


def test_rejected_edit_keeps_the_earlier_messages() -> None:
    async def interact(screen: Screen) -> None:
        await send(screen, "/edit 3")
        await screen.wait_for("editing message 3")
        await screen.press("x", "enter")
        await screen.wait_for("Error: too long")
        await screen.wait_for("editing message 3")
        assert "Gamma." in screen.text()
        assert typed(screen) == "beta?x"
        await screen.press("enter")
        await screen.wait_for("Shorter.")

    backend = converse(interact, backend=ScriptedBackend([InvalidRequest("too long")], text("Shorter.")))
    assert [message.text for message in backend.requests[1].messages] == ["alpha?", "Alpha.", "beta?x"]


def test_failed_retry_restores_what_followed() -> None:
    async def interact(screen: Screen) -> None:
        await send(screen, "/retry 2")
        await screen.wait_for("This removes messages 2 to 6")
        await screen.press("enter")
        await screen.wait_for("Error: no")
        await screen.wait_for("Gamma.")
        await send(screen, "delta?")
        await screen.wait_for("Delta.")

    backend = converse(interact, backend=ScriptedBackend([InvalidRequest("no")], text("Delta.")))
    assert [message.text for message in backend.requests[1].messages][-2:] == ["Gamma.", "delta?"]


def test_message_of_a_long_chat_is_loaded_before_it_is_deleted() -> None:
    turns = [
        ChatMessage(message=text_message(role, f"{role}-{number}\n\n" + "words\n\n" * 40))  # type: ignore[arg-type]
        for number in range(30)
        for role in ("user", "assistant")
    ]

    async def interact(screen: Screen) -> None:
        await screen.wait_for("scripted  ready")
        await send(screen, "/messages 3")
        await screen.wait_for("Message 3 of 60, your question")
        await screen.wait_for("user-1")
        await screen.press("d")
        await screen.wait_for("This removes messages 3 and 4")
        await screen.press("enter")
        await screen.wait_gone("user-1\n")
        await send(screen, "last")
        await screen.wait_for("Last.")

    backend = ScriptedBackend(text("Last."))
    drive(backend, interact, conversation=Conversation(turns))
    sent = [message.text.split("\n")[0] for message in backend.requests[0].messages]
    assert (len(sent), sent[:3]) == (59, ["user-0", "assistant-0", "user-2"])


def test_input_has_the_focus_after_each_action() -> None:
    async def interact(screen: Screen) -> None:
        for keys in (["f7", "escape"], ["f7", "e", "escape"], ["f7", "x"]):
            await screen.press(*keys)
            await screen.settle()
        await screen.wait_for("There is nothing after message 6")
        await screen.press("escape")
        assert isinstance(screen.app.focused, TextArea)

    converse(interact)


def test_lines_are_readable_on_a_wide_terminal() -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("Gamma.")
        await send(screen, "long")
        await screen.wait_for("word")
        await screen.settle()
        lines = [line.strip() for line in screen.text().splitlines() if "word word" in line]
        assert 80 < max(map(len, lines)) < 110

    drive(ScriptedBackend(text("word " * 100)), interact, size=(200, 50), conversation=three_turns())


def test_next_queued_question_returns_the_focus_to_the_input() -> None:
    leaves = asyncio.Event()
    backend = ScriptedBackend([*text("Half")[:1], leaves, *text("")], text("Second."))

    async def interact(screen: Screen) -> None:
        await send(screen, "delta?")
        await screen.wait_for("Half")
        await send(screen, "next?")
        await screen.wait_for("queued 1")
        await screen.press("f7")
        await screen.wait_for("Message 7 of 7")
        leaves.set()
        await screen.wait_for("Second.")
        await screen.press("h", "i")
        assert typed(screen) == "hi"

    converse(interact, backend=backend)
