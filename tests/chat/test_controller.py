"""Commands of the chat as state and effects, without a screen."""

import os
from pathlib import Path

import pytest

from mlxctl.chat.chat_backend import BackendModel
from mlxctl.chat.chat_commands import COMMANDS, plain_help
from mlxctl.chat.controller import controller
from mlxctl.chat.controller import effects as do
from mlxctl.chat.controller.state import MAX_QUEUED
from mlxctl.chat.conversation import ChatMessage, Conversation
from mlxctl.chat.session_autosave import SessionAutosave
from mlxctl.ir import ImagePart, TextDelta, text_message
from mlxctl.ir.errors import ConnectionLost, ContextTooLong, EngineError, InvalidRequest, MlxctlError
from mlxctl.state.stores import SessionStore

from .headless_chat import HeadlessChat
from .scripted_backend import Line, ScriptedBackend, text
from .test_messages import three_turns


def chat_of_three(*scripts: list[Line], **options: object) -> HeadlessChat:
    return HeadlessChat(ScriptedBackend(*scripts), conversation=three_turns(), **options)  # type: ignore[arg-type]


def autosave(directory: Path) -> SessionAutosave:
    return SessionAutosave(SessionStore(directory / "chats.db"))


def saved_texts(directory: Path) -> list[list[str]]:
    """The texts of all saved chats, shortest chat first."""
    store = SessionStore(directory / "chats.db")
    sessions = [store.find(summary.id) for summary in store.search()]
    return sorted((session.text.split("\n") for session in sessions if session is not None), key=len)


def sent(chat: HeadlessChat, number: int = -1) -> list[str]:
    """The texts of a request."""
    return [message.text for message in chat.backend.requests[number].messages]


def test_every_command_of_the_table_has_a_function() -> None:
    actions = {command.action for command in COMMANDS} - {"app.command_palette"}
    assert actions == set(controller.COMMANDS)


def test_help_of_the_plain_chat_lists_what_works_there() -> None:
    names = {
        command.names[0] for command in COMMANDS if command.names and f"/{command.names[0]} " in plain_help()
    }
    chat = HeadlessChat(has_input=False)
    refused = {
        command.names[0]
        for command in COMMANDS
        if command.names and chat.send(f"/{command.names[0]}")[-1:] == [screen_only(command.names[0])]
    }
    assert names & refused == set()
    assert refused == {"copy", "find", "monitor", "sidebar", "stop", "theme"}


def screen_only(name: str) -> str:
    return f"/{name} works in the full-screen chat only (without --plain)."


def test_set_and_system_change_the_next_request() -> None:
    chat = HeadlessChat(ScriptedBackend(text("One.")))
    chat.send("/set temperature 0.25", "/set max-tokens 40")
    assert chat.send("/set thinking off") == ["Set: temperature 0.25, max_tokens 40, thinking off"]
    assert chat.send("/set top_p 7") == ["Top p must be a number from 0 to 1, not '7'"]
    assert "No option 'colour'" in chat.send("/set colour blue")[0]
    assert chat.send("/system Answer in French.") == ["The system prompt is set."]
    chat.send("hello")
    (request,) = chat.backend.requests
    assert request.messages[0].text == "Answer in French."
    assert (request.sampling.temperature, request.max_tokens) == (0.25, 40)
    assert request.thinking.enabled is False


def test_questions_during_an_answer_are_asked_in_order() -> None:
    chat = HeadlessChat(ScriptedBackend(text("One."), text("Two."), text("Three.")))
    chat.during_answer = ["second", "third"]
    chat.send("first")
    assert chat.texts == ["first", "One.", "second", "Two.", "third", "Three."]


@pytest.mark.parametrize(
    ("script", "left", "returned"),
    [
        (text("One."), ["first", "One."], "second\n\nthird"),
        ([InvalidRequest("no tools here")], [], "first\n\nsecond\n\nthird"),
        ([EngineError("it exploded")], ["first"], "second\n\nthird"),
    ],
)
def test_queue_returns_to_the_input_when_the_answer_is_not_complete(
    script: list[Line], left: list[str], returned: str
) -> None:
    chat = HeadlessChat(ScriptedBackend(script))
    chat.during_answer, chat.stops = ["second", "third"], True
    chat.send("first")
    assert (chat.texts, chat.input) == (left, returned)


def test_number_of_queued_questions_is_limited() -> None:
    chat = HeadlessChat(ScriptedBackend(*[text("Fine.")] * (MAX_QUEUED + 1)))
    chat.during_answer = [f"question {number}" for number in range(MAX_QUEUED + 1)]
    said = chat.send("first")
    assert f"{MAX_QUEUED} questions are queued already. Up takes the last one back." in said
    assert chat.input == f"question {MAX_QUEUED}"


def test_last_queued_question_is_taken_back_with_its_image() -> None:
    image = ImagePart(data=b"\x89PNG", media_type="image/png")
    chat = HeadlessChat(ScriptedBackend(text("One.")))
    chat.chat.is_busy, chat.chat.attachments = True, (image,)
    chat.send("second")
    assert (chat.chat.take_back(), chat.chat.attachments, chat.chat.take_back()) == ("second", (image,), None)


@pytest.mark.parametrize(
    ("failure", "left", "words"),
    [
        (
            [TextDelta(text="Half"), ConnectionLost("gone")],
            ["first", "Half"],
            "gone. Partial answer kept. ^R retries.",
        ),
        ([EngineError("it exploded.")], ["first"], "it exploded. No output. ^R retries."),
        ([InvalidRequest("too long")], [], "too long. The question is back in the input."),
    ],
)
def test_failed_answer_says_what_is_kept(failure: list[Line], left: list[str], words: str) -> None:
    chat = HeadlessChat(ScriptedBackend(failure))
    assert chat.send("first") == [words]
    assert (chat.texts, chat.input) == (left, "first" if not left else "")


def test_words_without_an_input_name_commands() -> None:
    chat = HeadlessChat(
        ScriptedBackend([EngineError("it exploded")], [InvalidRequest("no")]), has_input=False
    )
    assert chat.send("first") == ["it exploded. No output. /retry retries."]
    assert chat.send("second")[-1] == ("no. The question is removed from the chat; /editor opens its text.")


def test_question_that_failed_is_not_sent_with_the_next_one() -> None:
    chat = HeadlessChat(ScriptedBackend([EngineError("it exploded")], text("Fine.")))
    chat.send("first", "second")
    assert sent(chat) == ["second"]


@pytest.mark.parametrize("failure", [ConnectionLost("gone"), InvalidRequest("no such thing")])
def test_failed_retry_restores_the_answer_and_what_followed(failure: MlxctlError) -> None:
    chat = chat_of_three([failure], text("Alpha again."))
    assert "Previous answer kept." in chat.send("/retry 2")[-1]
    assert chat.texts == ["alpha?", "Alpha.", "beta?", "Beta.", "gamma?", "Gamma."]
    assert chat.send("/retry 2") == ["This removes messages 2 to 6 (2 questions, 3 answers, 1 tool call)."]
    assert chat.texts == ["alpha?", "Alpha again."]


def test_declined_confirmation_changes_nothing() -> None:
    chat = chat_of_three()
    chat.agrees = False
    chat.send("/delete after 2", "/retry 1", "/undo")
    assert chat.texts == ["alpha?", "Alpha.", "beta?", "Beta.", "gamma?", "Gamma."]


def test_deleted_question_takes_its_answer_and_tool_results_with_it() -> None:
    chat = chat_of_three(text("Delta."))
    said = chat.send("/delete 3")
    assert said == [
        "This removes messages 3 and 4 (1 question, 1 answer, 1 tool call):\n\nbeta?",
        "Deleted messages 3 and 4 (1 question, 1 answer, 1 tool call).",
    ]
    chat.send("delta?")
    assert sent(chat) == ["alpha?", "Alpha.", "gamma?", "Gamma.", "delta?"]


def test_edited_question_replaces_what_follows() -> None:
    chat = chat_of_three(text("New beta."))
    chat.input = "draft"
    chat.send("/edit 4")
    assert chat.input == "beta?"
    assert chat.chat.describe_input() == "editing message 3: Enter replaces 3 to 6, Esc cancels"
    chat.input = ""
    chat.send("beta!")
    assert sent(chat) == ["alpha?", "Alpha.", "beta!"]
    assert chat.input == "draft"


@pytest.mark.parametrize("failure", [InvalidRequest("too long"), EngineError("it exploded")])
def test_edit_without_an_answer_keeps_the_earlier_messages(failure: MlxctlError) -> None:
    chat = chat_of_three([failure], text("Shorter."))
    chat.send("/edit 3")
    chat.input = ""
    chat.send("beta!")
    assert chat.texts == ["alpha?", "Alpha.", "beta?", "Beta.", "gamma?", "Gamma."]
    assert chat.input == "beta!"
    chat.send("beta.")
    assert chat.texts == ["alpha?", "Alpha.", "beta.", "Shorter."]


def test_question_that_is_too_long_names_the_remedies() -> None:
    (said,) = chat_of_three([ContextTooLong(num_prompt_tokens=5000, context_length=4096)]).send(
        "far too long"
    )
    assert "/compact replaces the earlier messages by a summary, ^N starts a new chat" in said
    assert "/set overflow drop_oldest" in said


def test_image_of_an_edited_question_goes_with_it() -> None:
    image = ImagePart(data=b"\x89PNG", media_type="image/png")
    conversation = Conversation()
    conversation.add_question("What is it?", [image])
    conversation.add(ChatMessage(message=text_message("assistant", "A dot.")))
    chat = HeadlessChat(ScriptedBackend(text("Still a dot.")), conversation=conversation)
    chat.send("/edit")
    assert (
        chat.chat.describe_input() == "editing message 1, with 1 image: Enter replaces 1 and 2, Esc cancels"
    )
    chat.send("What?")
    assert chat.backend.requests[0].messages[0].parts[0] == image


def test_edit_goes_back_to_earlier_questions() -> None:
    chat = chat_of_three()
    chat.send("/edit", "/edit")
    assert chat.input == "beta?"
    chat.send("/edit")
    assert chat.send("/edit") == ["There is no earlier question."]


@pytest.mark.parametrize(
    ("number", "copied", "in_input"), [(2, ["alpha?", "Alpha."], ""), (3, ["alpha?", "Alpha."], "beta?")]
)
def test_fork_from_a_message_keeps_the_original(
    number: int, copied: list[str], in_input: str, tmp_path: Path
) -> None:
    chat = chat_of_three(autosave=autosave(tmp_path))
    (said,) = chat.send(f"/fork {number}")
    assert said.endswith(f"message {number}. /chats opens the original.")
    assert (chat.texts, chat.input) == (copied, in_input)
    assert [len(texts) for texts in saved_texts(tmp_path)] == [2, 8]


def test_undo_and_fork_change_the_saved_chats(tmp_path: Path) -> None:
    chat = HeadlessChat(ScriptedBackend(text("One."), text("Two.")), autosave=autosave(tmp_path))
    chat.send("alpha", "/fork", "second", "/undo", "/undo")
    assert (chat.texts, saved_texts(tmp_path)) == ([], [["alpha", "One."]])
    assert chat.send("/undo") == ["There is no question yet."]


def test_summary_continues_in_a_copy(tmp_path: Path) -> None:
    chat = chat_of_three(text("Alpha and Beta."), text("Delta."), autosave=autosave(tmp_path))
    (said,) = chat.send("/compact")
    assert said.startswith("A summary replaces the earlier 2 questions")
    chat.send("delta?")
    assert sent(chat)[1:] == ["Alpha and Beta.", "gamma?", "Gamma.", "delta?"]
    assert len(saved_texts(tmp_path)) == 2


def test_failed_summary_changes_nothing() -> None:
    chat = chat_of_three([EngineError("it exploded.")])
    assert chat.send("/compact") == ["it exploded. The chat is unchanged."]
    assert len(chat.texts) == 6
    assert not chat.chat.is_busy


def test_messages_are_not_changed_during_an_answer() -> None:
    chat = chat_of_three(text("Delta."))
    chat.during_answer = ["/delete 1", "/retry", "/edit", "/compact", "/model another"]
    assert chat.send("delta?") == ["An answer is in progress. Esc stops it."] * 5


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("/retry", "There is no question yet."),
        ("/copy", "There is no answer to copy."),
        ("/copy code", "The last answer has no code; /copy code N copies one."),
        ("/messages", "There is no message yet."),
        ("/delete 1", "There is no message 1: this chat is empty."),
        ("/fork", "There is nothing to copy yet."),
        ("/compact", "There is nothing to compact yet."),
        ("/save", "There is nothing to export yet."),
        ("/stop", "There is nothing to stop."),
        ("/nonsense", "Unknown command /nonsense. /help lists the commands; //nonsense sends the text."),
    ],
)
def test_command_without_an_object_says_so(command: str, words: str) -> None:
    assert HeadlessChat().send(command) == [words]


def test_code_blocks_of_the_last_answer_are_copied_by_number() -> None:
    chat = HeadlessChat(ScriptedBackend(text("First:\n\n```python\nx = 1\n```\n\nthen\n\n~~~sh\nls\n~~~\n")))
    chat.send("show me", "/copy code", "/copy code 1", "/copy 1")
    copied = [effect.text for effect in chat.effects if isinstance(effect, do.Copy)]
    assert copied == ["ls\n", "x = 1\n", "show me"]
    assert chat.send("/copy code 3") == ["The last answer has 2 code blocks; /copy code N copies one."]


def test_exported_chat_is_loaded_and_continued(tmp_path: Path) -> None:
    chat = HeadlessChat(ScriptedBackend(text("One."), text("Two.")), system_prompt="Be brief.")
    path = tmp_path / "chat.json"
    assert chat.send("first", f"/save {path}") == [f"Saved to {path}"]
    chat.send("/new", "/system default", f"/load {path}", "second")
    assert sent(chat) == ["Be brief.", "first", "One.", "second"]
    assert "exists already" in chat.send(f"/save {path}")[0]


def test_saved_chat_is_loaded_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    chat = HeadlessChat(ScriptedBackend(text("One."), text("Two.")), autosave=autosave(tmp_path))
    chat.send("first")
    (summary,) = SessionStore(tmp_path / "chats.db").search()
    chat.send("/new", f"/load {summary.id[:6]}", "second")
    assert saved_texts(tmp_path) == [["first", "One.", "second", "Two."]]
    assert "no single chat id starts with 'nosuch'" in chat.send("/load nosuch")[0]


@pytest.mark.parametrize("command", ["/load", "/image"])
def test_pipe_is_refused(command: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "is a device or pipe" in HeadlessChat().send(f"{command} {tmp_path}/pipe")[0]


def test_attached_image_goes_with_the_question(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    chat = HeadlessChat(ScriptedBackend(text("A dot."), text("Nothing.")))
    chat.send(f"/image {tmp_path}/a.png")
    assert chat.chat.describe_input() == "with 1 image"
    chat.send("what is it?", f"/image {tmp_path}/a.png", "/image", "and now?")
    assert [message.num_images for message in chat.backend.requests[-1].messages] == [1, 0, 0]


def test_model_without_images_refuses_them(tmp_path: Path) -> None:
    chat = HeadlessChat()
    chat.chat.model = BackendModel(name="words", supports_images=False)
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    assert chat.send(f"/image {tmp_path}/a.png") == [
        "words accepts no images or videos. /model chooses another model."
    ]


def test_missing_file_is_asked_about_before_the_question_is_sent() -> None:
    chat = HeadlessChat(ScriptedBackend(text("I made that up.")))
    chat.agrees = False
    assert chat.send("read @nowhere.txt") == ["Send the question without it?"]
    assert (chat.input, chat.texts) == ("read @nowhere.txt", [])
    chat.agrees = True
    chat.send("read @nowhere.txt")
    assert chat.texts == ["read @nowhere.txt", "I made that up."]


def test_file_of_a_question_is_sent(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("blue")
    chat = HeadlessChat(ScriptedBackend(text("Blue.")))
    assert chat.send(f"read @{tmp_path}/notes.txt")[0] == f"Sent with the question: {tmp_path}/notes.txt"
    assert "```txt\nblue\n```" in sent(chat)[0]
    assert chat.send(f"read @{tmp_path}") == [f"@{tmp_path} is a directory; only files can be sent"]


def test_model_is_switched_and_after_an_error_the_former_one_returns() -> None:
    class Picky(ScriptedBackend):
        async def switch(self, name: str) -> BackendModel:
            if name == "broken":
                raise InvalidRequest("it has no weights")
            return await super().switch(name)

    chat = HeadlessChat(Picky(text("One.")))
    assert chat.send("/model another") == [
        "Loading another …",
        "another is ready, context 4,096 tokens.",
    ]
    assert chat.send("/model broken")[1:] == [
        "it has no weights. /model chooses another model.",
        "another stays in use.",
    ]
    chat.send("first")
    assert (chat.backend.requests[0].model, chat.chat.opened.is_set()) == ("another", True)


def test_statistics_are_shown_or_hidden() -> None:
    chat = HeadlessChat()
    assert chat.send("/stats", "/stats") == [
        "Statistics are shown below answers.",
        "Statistics are hidden below answers.",
    ]
    assert [effect.is_shown for effect in chat.effects if isinstance(effect, do.ShowStatistics)] == [
        True,
        False,
    ]


def test_chat_that_cannot_be_saved_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    chat = HeadlessChat(ScriptedBackend(text("One.")), autosave=autosave(tmp_path / "file"))
    assert any(said.startswith("The chat is not saved: ") for said in chat.send("first"))
    assert chat.texts == ["first", "One."]
