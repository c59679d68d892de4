"""A chat that fills the context: the meter, the remedies, and /compact."""

import asyncio

import pytest

from mlxctl.chat.answer_statistics import AnswerStatistics
from mlxctl.chat.chat_backend import BackendModel
from mlxctl.chat.compaction import Compaction, compact
from mlxctl.chat.conversation import ChatMessage, ChatOptions, Conversation
from mlxctl.chat.error_text import remedy, sentence
from mlxctl.chat.widgets.status_line import Status, status_content
from mlxctl.ir import Finished, TextDelta, Usage, text_message
from mlxctl.ir.errors import ContextTooLong, EngineError, InvalidRequest, MlxctlError

from .screen_driver import Screen, drive
from .scripted_backend import Line, ScriptedBackend, text
from .test_commands import send
from .test_messages import converse

TOO_LONG = ContextTooLong(num_prompt_tokens=5000, context_length=4096)


def chat(num_turns: int) -> Conversation:
    statistics = AnswerStatistics(prompt_tokens=3000, completion_tokens=100)
    return Conversation(
        [
            ChatMessage(message=text_message(role, f"{role} {number}"), statistics=statistics)
            for number in range(1, num_turns + 1)
            for role in ("user", "assistant")
        ]
    )


def compacted(conversation: Conversation, *scripts: list[Line]) -> tuple[Compaction, ScriptedBackend]:
    backend = ScriptedBackend(*scripts)
    model = BackendModel(name="scripted", context_length=4096)
    found = asyncio.run(compact(backend, model, conversation, ChatOptions(system_prompt="Be brief.")))
    assert found is not None
    return found, backend


def cut(words: str) -> list[Line]:
    """An answer that ends where the context does."""
    usage = Usage(num_prompt_tokens=4000, num_completion_tokens=96)
    return [TextDelta(text=words), Finished(reason="length", usage=usage)]


def test_a_summary_replaces_all_but_the_last_turn() -> None:
    found, backend = compacted(chat(3), [*text("They counted.")])
    request = backend.requests[0]
    assert [message.text for message in request.messages[:2]] == ["Be brief.", "user 1"]
    assert request.messages[-1].text.startswith("Summarize our conversation")
    assert request.max_tokens == 512
    kept = Conversation(found.messages)
    assert [entry.text for entry in kept.entries[1:]] == ["They counted.", "user 3", "assistant 3"]
    # The title of the chat stays, and its former length is forgotten.
    assert (kept.title, kept.num_context_tokens) == ("user 1", None)
    assert found.description == "A summary replaces the earlier 2 questions with their answers."


@pytest.mark.parametrize("failure", [[TOO_LONG], cut("They cou")])
def test_the_oldest_turns_are_left_out_where_a_summary_has_no_room(failure: list[Line]) -> None:
    found, backend = compacted(chat(5), failure, [*text("Later they counted.")])
    assert backend.requests[1].messages[1].text == "user 3"
    assert (found.num_summarized, found.num_dropped) == (2, 2)
    assert found.description.endswith("the oldest 2 questions with their answers were left out.")
    none, _ = compacted(chat(2), failure)
    assert [item.message.text for item in none.messages] == ["user 2", "assistant 2"]
    assert none.description == (
        "There is no room for a summary: the oldest question with its answer was left out."
    )


def test_a_second_summary_takes_the_last_turn_too() -> None:
    first, _ = compacted(chat(2), [*text("One.")])
    second, _ = compacted(Conversation(first.messages), [*text("Two.")])
    assert [entry.text for entry in Conversation(second.messages).entries[1:]] == ["Two."]


def test_the_command_shows_the_summary_in_a_copy_of_the_chat() -> None:
    backend = ScriptedBackend([*text("Alpha and Beta.")], [*text("Delta.")])

    async def interact(screen: Screen) -> None:
        await send(screen, "/compact")
        seen = await screen.wait_for("A summary replaces the earlier 2 questions")
        assert "Alpha and Beta." in seen
        assert "beta?" not in seen
        await screen.ask("delta?")
        await screen.wait_for("Delta.")

    converse(interact, backend=backend)
    texts = [message.text for message in backend.requests[1].messages]
    assert texts[1:] == ["Alpha and Beta.", "gamma?", "Gamma.", "delta?"]


@pytest.mark.parametrize(
    ("error", "is_known"),
    [
        (TOO_LONG, True),
        (InvalidRequest("too many", code="context_length_exceeded"), True),
        (InvalidRequest("the request exceeds the available context size"), True),
        (InvalidRequest("This model's maximum context length is 8192 tokens"), True),
        (InvalidRequest("temperature is too high"), False),
    ],
)
def test_errors_of_other_servers_are_recognized(error: MlxctlError, is_known: bool) -> None:
    assert bool(remedy(error, has_earlier_messages=True, new_chat="^N")) == is_known
    assert ("alone is too long" in remedy(error, has_earlier_messages=False, new_chat="^N")) == is_known


def test_a_message_ends_with_one_full_stop() -> None:
    assert [sentence(EngineError(text)) for text in ("sorry", "sorry.", "why?")] == [
        "sorry.",
        "sorry.",
        "why?",
    ]


@pytest.mark.parametrize(("num_tokens", "style"), [(700, None), (800, "warning"), (970, "error")])
@pytest.mark.parametrize("width", [60, 120])
def test_a_context_that_is_nearly_full_is_colored(num_tokens: int, style: str | None, width: int) -> None:
    status = Status(model="m", state="ready", num_context_tokens=num_tokens, context_length=1000)
    spans = status_content(status, width=width).spans
    assert [str(span.style) for span in spans] == ([f"$text-{style}"] if style else [])


def test_messages_that_the_server_left_out_are_counted() -> None:
    usage = Usage(num_prompt_tokens=10, num_dropped_messages=4)
    backend = ScriptedBackend([TextDelta(text="Fine."), Finished(reason="stop", usage=usage)])

    async def interact(screen: Screen) -> None:
        await send(screen, "/set overflow drop_oldest")
        await screen.ask("go on")
        await screen.wait_for("The oldest 4 messages were left out")

    drive(backend, interact)
    assert backend.requests[0].context_overflow == "drop_oldest"
