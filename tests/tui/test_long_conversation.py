"""A conversation of fifty thousand tokens: only what is near the screen is laid out, and nothing of it is lost."""

import pytest

from mlxctl.ir import text_message
from mlxctl.tui.conversation import Conversation, Said
from mlxctl.tui.widgets.stretch import MAX_WIDGETS, Stretch
from tests.tui.screens import Screen, drive
from tests.tui.scripted import ScriptedPartner, text

NUM_TURNS = 30


def long_conversation() -> Conversation:
    words = "Words that fill a line of the screen, and some more. " * 6
    paragraphs = "\n\n".join(f"Paragraph {number}. {words}" for number in range(6))
    turns = [
        (text_message("user", f"question-{number}"), text_message("assistant", f"answer-{number}\n\n{paragraphs}"))
        for number in range(NUM_TURNS)
    ]
    return Conversation([Said(message=message) for turn in turns for message in turn])


def stretches(screen: Screen) -> list[Stretch]:
    return list(screen.app.screen.query(Stretch))


def num_laid_out(screen: Screen) -> int:
    return sum(len(stretch.query("*")) for stretch in stretches(screen) if not stretch.is_folded)


async def open_whole(screen: Screen) -> None:
    await screen.wait_for("scripted  ready")
    await screen.wait_for("Words that fill")


def test_only_what_is_near_the_screen_is_laid_out_wherever_a_person_looks() -> None:
    async def look(screen: Screen) -> None:
        await open_whole(screen)
        transcript = screen.app.screen.query_one("#transcript")
        num_rows = transcript.virtual_size.height
        assert num_laid_out(screen) < 4 * MAX_WIDGETS < len(screen.app.screen.query("*"))
        for place in (0.5, 0.0, 1.0):
            transcript.scroll_to(y=place * transcript.max_scroll_y, animate=False)
            await screen.wait_for({0.5: "Words that fill", 0.0: "question-0", 1.0: "Paragraph 5"}[place])
            assert num_laid_out(screen) < 5 * MAX_WIDGETS
            assert transcript.virtual_size.height == num_rows

    drive(ScriptedPartner(), look, conversation=long_conversation())


def test_words_are_found_where_nothing_is_laid_out() -> None:
    async def find(screen: Screen) -> None:
        await open_whole(screen)
        assert stretches(screen)[2].is_folded
        await screen.press("ctrl+f", *"question-7")
        await screen.wait_for("answer-7\n")

    drive(ScriptedPartner(), find, conversation=long_conversation())


def test_another_width_gives_everything_another_height() -> None:
    async def resize(screen: Screen) -> None:
        await open_whole(screen)
        transcript = screen.app.screen.query_one("#transcript")
        before = transcript.virtual_size.height
        await screen.resize(120, 24)
        await screen.wait_for("Words that fill")
        assert transcript.virtual_size.height < 0.8 * before
        assert num_laid_out(screen) < 5 * MAX_WIDGETS

    drive(ScriptedPartner(), resize, conversation=long_conversation())


@pytest.mark.parametrize("num_edits", [1, 3])
def test_the_last_questions_are_taken_back_one_after_the_other(num_edits: int) -> None:
    async def edit(screen: Screen) -> None:
        await open_whole(screen)
        for number in range(num_edits):
            await screen.press("ctrl+l")
            await screen.wait_for(f"│ question-{NUM_TURNS - 1 - number}")
        await screen.press("enter")
        await screen.wait_for("Another answer.")
        assert f"question-{NUM_TURNS - num_edits}" in screen.text()

    partner = ScriptedPartner(text("Another answer."))
    drive(partner, edit, conversation=long_conversation())
    assert len(partner.requests[0].messages) == 2 * (NUM_TURNS - num_edits) + 1
