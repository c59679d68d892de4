"""Conversation editing, input history and export."""

import json
from pathlib import Path

import pytest

from mlxctl.chat.answer_statistics import AnswerStatistics
from mlxctl.chat.conversation import ChatMessage, Conversation
from mlxctl.chat.export import export, load_exported
from mlxctl.chat.widgets.composer import InputHistory
from mlxctl.ir import Message, TextPart, ThinkingPart, ToolCallPart, ToolResultPart, text_message
from mlxctl.ir.errors import StoreError


def conversation() -> Conversation:
    made = Conversation()
    made.add_question("What is 6*7?")
    call = ToolCallPart(id="c1", name="calculator", arguments='{"expression": "6*7"}')
    made.add(ChatMessage(message=Message(role="assistant", parts=(ThinkingPart(text="Hm."), call))))
    result = ToolResultPart(call_id="c1", content=(TextPart(text="42"),))
    made.add(ChatMessage(message=Message(role="tool", parts=(result,))))
    made.add(ChatMessage(message=text_message("assistant", "It is **42**"), is_partial=True))
    return made


def test_removing_an_answer_removes_tool_messages_too() -> None:
    made = conversation()
    removed = made.remove(made.within(made.find("1"), "after"))
    assert [messages.message.role for messages in removed] == ["assistant", "tool", "assistant"]
    assert [messages.message.text for messages in made.messages] == ["What is 6*7?"]


def test_an_answer_finds_its_question_and_one_without_says_so() -> None:
    made = conversation()
    assert made.question_of(made.find("2")) == made.question_of(made.find("1")) == made.find("1")
    alone = Conversation(made.messages[1:])
    with pytest.raises(ValueError, match="Message 1 is an answer without a question"):
        alone.question_of(alone.find("1"))


def test_removing_the_question_empties_the_conversation() -> None:
    made = conversation()
    question = made.remove_last_question()
    assert question is not None
    assert question.text == "What is 6*7?"
    assert made.messages == ()
    assert made.remove_last_question() is None


def test_input_history_keeps_the_draft() -> None:
    history = InputHistory()
    history.add("one")
    history.add("two")
    assert [history.older("draft"), history.older("two"), history.older("one")] == ["two", "one", None]
    assert [history.newer(), history.newer(), history.newer()] == ["two", "draft", None]


def test_markdown_export_has_thinking_and_calls(tmp_path: Path) -> None:
    path = tmp_path / "chat.md"
    export(path, conversation().messages, model="tiny", system_prompt="Be brief.")
    text = path.read_text()
    assert "## Model (partial)\n\nIt is **42**" in text
    assert "<summary>Thinking</summary>" in text
    assert '```json\n{"expression": "6*7"}\n```' in text


def test_json_export_has_openai_messages(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    export(path, conversation().messages, model="tiny", system_prompt="Be brief.")
    messages = json.loads(path.read_text())["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert messages[3] == {"role": "tool", "tool_call_id": "c1", "content": "42"}
    assert messages[4]["is_partial"] is True


def test_export_rejects_existing_files_and_unknown_suffixes(tmp_path: Path) -> None:
    taken = tmp_path / "chat.md"
    taken.write_text("mine")
    with pytest.raises(StoreError, match="exists already"):
        export(taken, conversation().messages, model="tiny", system_prompt="")
    with pytest.raises(StoreError, match="must end in"):
        export(tmp_path / "chat.txt", conversation().messages, model="tiny", system_prompt="")
    assert taken.read_text() == "mine"


def test_statistics_of_an_answer_are_exported_and_read_again(tmp_path: Path) -> None:
    statistics = AnswerStatistics(
        prompt_tokens=100, cached_tokens=80, completion_tokens=7, tokens_per_second=20.4
    )
    answer = ChatMessage(message=text_message("assistant", "Hello!"), statistics=statistics)
    made = Conversation([ChatMessage(message=text_message("user", "Hi")), answer])
    for suffix in (".json", ".md"):
        export(tmp_path / f"chat{suffix}", made.messages, model="tiny", system_prompt="")
    assert "Hello!\n\n*7 tokens  20 tok/s  cached 80 of 100*" in (tmp_path / "chat.md").read_text()
    _, messages = load_exported(tmp_path / "chat.json")
    assert messages[1].statistics == statistics


def test_wrong_statistics_name_the_message(tmp_path: Path) -> None:
    message = {"role": "assistant", "content": "Hi", "statistics": {"prompt_tokens": "many"}}
    (tmp_path / "chat.json").write_text(json.dumps({"messages": [message]}))
    with pytest.raises(StoreError, match=r"messages\[0\] is not a chat message: .*prompt_tokens"):
        load_exported(tmp_path / "chat.json")
