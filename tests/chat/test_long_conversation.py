"""A conversation of many pages: only near pages are laid out."""

import asyncio

import pytest

from mlxctl.chat.conversation import ChatMessage, Conversation
from mlxctl.chat.history_loader import HistoryLoader
from mlxctl.chat.widgets.question import QuestionWidget
from mlxctl.chat.widgets.transcript import MAX_WIDGETS, ChatTranscript, TranscriptPage
from mlxctl.ir import text_message
from tests.chat.screen_driver import Screen, drive
from tests.chat.scripted_backend import ScriptedBackend, text

NUM_TURNS = 16


def long_conversation() -> Conversation:
    words = "Words that fill a line of the screen, and some more. " * 6
    paragraphs = "\n\n".join(f"Paragraph {number}. {words}" for number in range(6))
    turns = [
        (
            text_message("user", f"question-{number}"),
            text_message("assistant", f"answer-{number}\n\n{paragraphs}"),
        )
        for number in range(NUM_TURNS)
    ]
    return Conversation([ChatMessage(message=message) for turn in turns for message in turn])


def pages(screen: Screen) -> list[TranscriptPage]:
    return list(screen.app.screen.query(TranscriptPage))


def num_laid_out(screen: Screen) -> int:
    return sum(len(page.query("*")) for page in pages(screen) if not page.is_folded)


def num_drawn(screen: Screen) -> int:
    return len(screen.app.screen.query(QuestionWidget))


async def open_at_its_end(screen: Screen) -> None:
    await screen.wait_for("scripted  ready")
    await screen.wait_for("Words that fill")


async def open_whole(screen: Screen) -> None:
    await open_at_its_end(screen)
    await screen.press("ctrl+f")
    while num_drawn(screen) < NUM_TURNS:
        await screen.settle()
    await screen.press("escape", "ctrl+end")
    await screen.settle()


async def page_up_to(screen: Screen, words: str) -> None:
    """Page up until the text is visible below the header."""
    while words not in screen.text().partition("\n")[2]:
        await screen.press("pageup", "pageup", "pageup")
        await screen.settle()
        assert num_laid_out(screen) < 5 * MAX_WIDGETS


def test_long_conversation_is_loaded_on_scrolling_up() -> None:
    async def interact(screen: Screen) -> None:
        await open_at_its_end(screen)
        assert num_drawn(screen) < NUM_TURNS / 3
        await page_up_to(screen, "question-0")
        assert num_drawn(screen) == NUM_TURNS
        await screen.press("ctrl+end")
        await screen.wait_for("Paragraph 5")

    drive(ScriptedBackend(), interact, conversation=long_conversation())


def test_visible_rows_stay_while_history_loads_above() -> None:
    async def interact(screen: Screen) -> None:
        await open_at_its_end(screen)
        before = num_drawn(screen)
        transcript = screen.app.screen.query_one(ChatTranscript)
        transcript.scroll_to(y=3, animate=False)
        await screen.settle()
        seen = screen.text()
        while num_drawn(screen) == before:
            await screen.settle()
        assert transcript.scroll_y == transcript.scroll_target_y > 3
        assert seen == screen.text()

    drive(ScriptedBackend(), interact, conversation=long_conversation())


def test_search_finds_text_that_is_not_loaded_yet() -> None:
    async def find(screen: Screen) -> None:
        await open_at_its_end(screen)
        await screen.press("ctrl+f", *"question-7")
        await screen.wait_for("answer-7")

    drive(ScriptedBackend(), find, conversation=long_conversation())


def test_new_chat_cancels_loading_of_history() -> None:
    async def turn(screen: Screen) -> None:
        await open_at_its_end(screen)
        await screen.press("ctrl+f")
        await screen.press("escape", "ctrl+n")
        await screen.wait_for("New chat.")
        await screen.settle()
        assert num_drawn(screen) == 0

    drive(ScriptedBackend(), turn, conversation=long_conversation())


def test_resize_lays_out_all_pages_again() -> None:
    async def resize(screen: Screen) -> None:
        await open_whole(screen)
        transcript = screen.app.screen.query_one("#transcript")
        before = transcript.virtual_size.height
        await screen.resize(120, 24)
        await screen.wait_for("Words that fill")
        await screen.settle()
        assert transcript.virtual_size.height < 0.9 * before
        assert num_laid_out(screen) < 5 * MAX_WIDGETS

    drive(ScriptedBackend(), resize, conversation=long_conversation())


@pytest.mark.parametrize("num_edits", [1, 3])
def test_last_questions_can_be_edited_repeatedly(num_edits: int) -> None:
    async def edit(screen: Screen) -> None:
        await open_at_its_end(screen)
        for number in range(num_edits):
            await screen.press("ctrl+l")
            await screen.wait_for(f"│ question-{NUM_TURNS - 1 - number}")
        await screen.press("enter")
        await screen.wait_for("Another answer.")
        assert f"question-{NUM_TURNS - num_edits}" in screen.text()

    backend = ScriptedBackend(text("Another answer."))
    drive(backend, edit, conversation=long_conversation())
    assert len(backend.requests[0].messages) == 2 * (NUM_TURNS - num_edits) + 1


def test_search_says_that_it_is_still_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    is_loaded = asyncio.Event()

    async def load(history: HistoryLoader, **options: object) -> None:
        if not options:
            await is_loaded.wait()

    monkeypatch.setattr(HistoryLoader, "load", load)

    async def search(screen: Screen) -> None:
        await screen.wait_for("scripted is ready")
        await screen.press("ctrl+f", "x")
        await screen.wait_for("searching …")
        is_loaded.set()
        await screen.wait_for("not found")

    drive(ScriptedBackend(), search)
