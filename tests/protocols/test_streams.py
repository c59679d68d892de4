"""What a stream says beside the answer, and what it leaves unsaid."""

import json

from mlxctl.errors import EngineDied
from mlxctl.ir import PromptProgress, TextDelta, ThinkingDelta, Usage, collect
from mlxctl.protocols import AnthropicMessagesFormatter, OpenAIChatFormatter

from .scripts import CUT_OFF, PLAIN, TWO_CALLS, chat, data_of, interleaved, joined_chat, messages, stream

PROGRESS = PromptProgress(num_processed=512, num_cached=0, num_prompt_tokens=4096)


def test_a_ping_before_the_message_is_a_comment_and_later_an_event() -> None:
    formatter = messages()
    assert formatter.ping() == b": ping\n\n"
    formatter.begin(Usage(num_prompt_tokens=1))
    assert formatter.ping() == b'event: ping\ndata: {"type":"ping"}\n\n'


def test_a_ping_of_chat_is_a_comment_which_needs_no_request() -> None:
    assert OpenAIChatFormatter().ping() == b": ping\n\n"
    assert AnthropicMessagesFormatter().ping() == b": ping\n\n"


def test_progress_is_a_comment_that_says_how_far() -> None:
    assert chat().on_event(PROGRESS) == b": prefill 512/4096\n\n"
    assert messages().on_event(PROGRESS) == b": prefill 512/4096\n\n"


def test_nothing_new_is_not_said() -> None:
    for formatter in (chat(), messages()):
        assert formatter.on_event(TextDelta(text="")) == b""
        assert formatter.on_event(ThinkingDelta(text="")) == b""


def test_usage_of_chat_is_said_only_when_asked_for() -> None:
    silent = data_of(stream(chat(), PLAIN))
    told = data_of(stream(chat(stream_options={"include_usage": True}), PLAIN))
    assert not any("usage" in chunk for chunk in silent)
    assert [chunk["usage"] is None for chunk in told] == [True] * (len(told) - 1) + [False]
    assert told[-1]["choices"] == []


def test_a_broken_chat_stream_ends_without_a_reason_to_believe_it() -> None:
    formatter = chat()
    wire = (
        formatter.begin(Usage(num_prompt_tokens=1))
        + formatter.on_event(CUT_OFF[0])
        + formatter.on_error(EngineDied("gone"))
    )
    chunks = data_of(wire)
    assert chunks[-1]["error"]["message"] == "gone"
    assert all(chunk["choices"][0]["finish_reason"] is None for chunk in chunks[:-1])
    assert wire.endswith(b"data: [DONE]\n\n")


def test_an_error_before_the_stream_began_is_only_the_error() -> None:
    assert messages().on_error(EngineDied("gone")).startswith(b"event: error\n")
    assert data_of(chat().on_error(EngineDied("gone")))[0]["error"]["message"] == "gone"


def test_an_answer_of_calls_alone_has_null_content_in_chat() -> None:
    message = json.loads(chat().whole(collect(TWO_CALLS[1:])))["choices"][0]["message"]
    assert message["content"] is None
    assert len(message["tool_calls"]) == 2


def test_an_empty_answer_is_empty_and_not_null() -> None:
    assert json.loads(chat().whole(collect(PLAIN[-1:])))["choices"][0]["message"]["content"] == ""
    assert json.loads(messages().whole(collect(PLAIN[-1:])))["content"] == []


def test_each_answer_has_its_own_id() -> None:
    ids = set()
    for _ in range(3):
        formatter = OpenAIChatFormatter()
        formatter.parse(b'{"model": "m", "messages": [{"role": "user", "content": ""}]}')
        ids.add(data_of(formatter.begin(Usage(num_prompt_tokens=1)))[0]["id"])
    assert len(ids) == 3


def test_choices_that_take_turns_are_those_of_the_whole_answer_and_the_prompt_counts_once() -> None:
    scripts = (PLAIN, TWO_CALLS, CUT_OFF)
    whole = json.loads(chat(n=3).whole(*map(collect, scripts)))
    chunks = data_of(interleaved(chat(n=3, stream_options={"include_usage": True}), *scripts))
    for number, choice in enumerate(whole["choices"]):
        mine = [chunk for chunk in chunks if chunk["choices"] and chunk["choices"][0]["index"] == number]
        assert choice["index"] == number
        assert joined_chat(mine)["content"] == choice["message"]["content"]
        assert mine[-1]["choices"][0]["finish_reason"] == choice["finish_reason"]
    assert whole["usage"]["prompt_tokens"] == 12
    assert whole["usage"]["completion_tokens"] == 21
    assert chunks[-1]["usage"] == whole["usage"]
