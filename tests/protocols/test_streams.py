"""Pings, progress, usage and errors in streams."""

import json

from mlxctl.ir import PromptProgress, TextDelta, ThinkingDelta, Usage, collect
from mlxctl.ir.errors import EngineDied

from .scripts import (
    CHAT_BODY,
    CUT_OFF,
    PLAIN,
    TWO_CALLS,
    chat,
    data_of,
    encoder_of,
    interleaved,
    joined_chat,
    messages,
    stream,
)

PROGRESS = PromptProgress(num_processed=512, num_cached=0, num_prompt_tokens=4096)


def test_messages_ping_is_a_comment_before_the_start_and_an_event_after() -> None:
    encoder = messages()
    assert encoder.ping() == b": ping\n\n"
    encoder.begin(Usage(num_prompt_tokens=1))
    assert encoder.ping() == b'event: ping\ndata: {"type":"ping"}\n\n'


def test_chat_ping_is_a_comment() -> None:
    assert chat().ping() == b": ping\n\n"


def test_progress_is_a_comment() -> None:
    assert chat().on_event(PROGRESS) == b": prefill 512/4096\n\n"
    assert messages().on_event(PROGRESS) == b": prefill 512/4096\n\n"


def test_empty_deltas_send_nothing() -> None:
    for encoder in (chat(), messages()):
        assert encoder.on_event(TextDelta(text="")) == b""
        assert encoder.on_event(ThinkingDelta(text="")) == b""


def test_chat_stream_has_usage_only_on_request() -> None:
    silent = data_of(stream(chat(), PLAIN))
    chunks = data_of(stream(chat(stream=True, stream_options={"include_usage": True}), PLAIN))
    assert not any("usage" in chunk for chunk in silent)
    assert [chunk["usage"] is None for chunk in chunks] == [True] * (len(chunks) - 1) + [False]
    assert chunks[-1]["choices"] == []


def test_failed_chat_stream_has_no_finish_reason() -> None:
    encoder = chat()
    wire = (
        encoder.begin(Usage(num_prompt_tokens=1))
        + encoder.on_event(CUT_OFF[0])
        + encoder.on_error(EngineDied("gone"))
    )
    chunks = data_of(wire)
    assert chunks[-1]["error"]["message"] == "gone"
    assert all(chunk["choices"][0]["finish_reason"] is None for chunk in chunks[:-1])
    assert wire.endswith(b"data: [DONE]\n\n")


def test_error_before_the_stream_is_only_the_error() -> None:
    event = messages().on_error(EngineDied("gone"), request_id="req_1")
    assert event.startswith(b"event: error\n")
    assert data_of(event)[0]["request_id"] == "req_1"
    assert data_of(chat().on_error(EngineDied("gone")))[0]["error"]["message"] == "gone"


def test_an_answer_of_calls_alone_has_null_content_in_chat() -> None:
    message = json.loads(chat().whole(collect(TWO_CALLS[1:])))["choices"][0]["message"]
    assert message["content"] is None
    assert len(message["tool_calls"]) == 2


def test_an_empty_answer_is_empty_and_not_null() -> None:
    assert json.loads(chat().whole(collect(PLAIN[-1:])))["choices"][0]["message"]["content"] == ""
    assert json.loads(messages().whole(collect(PLAIN[-1:])))["content"] == []


def test_answers_have_distinct_ids() -> None:
    ids = set()
    for _ in range(3):
        encoder = encoder_of("chat", CHAT_BODY)
        ids.add(data_of(encoder.begin(Usage(num_prompt_tokens=1)))[0]["id"])
    assert len(ids) == 3


def test_interleaved_choices_equal_the_whole_answer() -> None:
    scripts = (PLAIN, TWO_CALLS, CUT_OFF)
    whole = json.loads(chat(n=3).whole(*map(collect, scripts)))
    chunks = data_of(interleaved(chat(n=3, stream=True, stream_options={"include_usage": True}), *scripts))
    for number, choice in enumerate(whole["choices"]):
        mine = [chunk for chunk in chunks if chunk["choices"] and chunk["choices"][0]["index"] == number]
        assert choice["index"] == number
        assert joined_chat(mine)["content"] == choice["message"]["content"]
        assert mine[-1]["choices"][0]["finish_reason"] == choice["finish_reason"]
    assert whole["usage"]["prompt_tokens"] == 12
    assert whole["usage"]["completion_tokens"] == 21
    assert chunks[-1]["usage"] == whole["usage"]
