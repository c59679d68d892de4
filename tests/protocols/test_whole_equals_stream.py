"""Streams assemble to the whole body for any answer.

They replay to the same parts.
"""

import json
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mlxctl.ir import (
    Finished,
    FinishReason,
    Message,
    Part,
    StreamEvent,
    TextDelta,
    TextPart,
    ThinkingDelta,
    ThinkingPart,
    ToolArgumentsDelta,
    ToolCallEnded,
    ToolCallPart,
    ToolCallStarted,
    Usage,
    collect,
)
from mlxctl.protocols import PROTOCOLS

from .scripts import (
    CHAT_BODY,
    MESSAGES_BODY,
    RESPONSES_BODY,
    chat,
    data_of,
    joined_blocks,
    joined_chat,
    joined_items,
    messages,
    responses,
    stream,
)

# Quotes, escapes, line ends of several kinds, and characters of one to four bytes: what a wire format can get
# wrong.
TEXTS = st.text(alphabet='ab "\\/{}:\n\r\t\x00\u2028é…☀🦊', max_size=5)
JSON_OBJECTS = st.dictionaries(TEXTS, st.none() | st.booleans() | st.integers(-9, 9) | TEXTS, max_size=3)
REASONS: list[FinishReason] = ["stop", "stop_sequence", "length", "tool_calls"]


def split(text: str, cuts: list[int]) -> list[str]:
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


@st.composite
def events(draw: st.DrawFn) -> list[StreamEvent]:
    """Draw any valid stream, including calls cut off within their arguments."""
    script: list[StreamEvent] = []
    num_calls = 0
    for kind in draw(st.lists(st.sampled_from(["text", "thinking", "call"]), max_size=6)):
        if kind == "text":
            script.append(TextDelta(text=draw(TEXTS)))
        elif kind == "thinking":
            script.append(ThinkingDelta(text=draw(TEXTS)))
        else:
            script += draw(calls(num_calls))
            num_calls += 1
    counts = st.integers(0, 10**6)
    usage = Usage(num_prompt_tokens=draw(counts), num_completion_tokens=draw(counts))
    return [*script, Finished(reason=draw(st.sampled_from(REASONS)), usage=usage)]


@st.composite
def calls(draw: st.DrawFn, index: int) -> list[StreamEvent]:
    arguments = json.dumps(draw(JSON_OBJECTS), ensure_ascii=draw(st.booleans()))
    arguments = arguments[: draw(st.just(len(arguments)) | st.integers(0, len(arguments)))]
    deltas = [
        ToolArgumentsDelta(index=index, json=piece)
        for piece in split(arguments, draw(st.lists(st.integers(0, 99), max_size=3)))
    ]
    return [
        ToolCallStarted(index=index, id=f"call_{index}", name=draw(TEXTS)),
        *deltas,
        ToolCallEnded(index=index),
    ]


def without_empty(message: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in message.items()
        if value and key in ("content", "reasoning_content", "tool_calls")
    }


@given(events())
def test_streamed_chat_equals_the_whole_body(script: list[StreamEvent]) -> None:
    chunks = data_of(stream(chat(stream=True, stream_options={"include_usage": True}), script))
    whole = json.loads(chat().whole(collect(script)))
    assert without_empty(joined_chat(chunks)) == without_empty(whole["choices"][0]["message"])
    assert chunks[-2]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"]
    assert chunks[-1]["usage"] == whole["usage"]


@given(events(), st.sampled_from(["summarized", "omitted"]))
def test_streamed_message_equals_the_whole_body(script: list[StreamEvent], display: str) -> None:
    thinking = {"type": "adaptive", "display": display}
    streamed = data_of(stream(messages(thinking=thinking), script))
    whole = json.loads(messages(thinking=thinking).whole(collect(script)))
    assert joined_blocks(streamed) == whole["content"]
    end = ("stop_reason", "stop_sequence", "stop_details", "container")
    assert streamed[-2]["delta"] == {key: whole[key] for key in end}
    assert streamed[-2]["usage"] == whole["usage"]
    assert [event["type"] for event in (streamed[0], streamed[-1])] == ["message_start", "message_stop"]


@given(events(), st.booleans())
def test_streamed_response_equals_the_whole_body(script: list[StreamEvent], writes_summary: bool) -> None:
    fields = {"reasoning": {"summary": "auto"}} if writes_summary else {}
    streamed = data_of(stream(responses(**fields), script))
    whole = json.loads(responses(**fields).whole(collect(script)))
    assert joined_items(streamed) == whole["output"]
    assert streamed[-1]["response"] == whole
    assert [event["sequence_number"] for event in streamed] == list(range(len(streamed)))


@given(events(), st.booleans(), st.booleans())
def test_replayed_response_is_the_generated_answer(
    script: list[StreamEvent], writes_summary: bool, carries: bool
) -> None:
    result = collect(script)
    fields: dict[str, Any] = {"reasoning": {"summary": "auto"}} if writes_summary else {}
    fields |= {"include": ["reasoning.encrypted_content"]} if carries else {}
    output = json.loads(responses(**fields).whole(result))["output"]
    if carries:
        output = [
            item | {"summary": [], "content": None} if item["type"] == "reasoning" else item
            for item in output
        ]
    body = RESPONSES_BODY | {"input": [{"role": "user", "content": "Hi"}, *output]}
    replayed = PROTOCOLS["responses"].parse_alone(json.dumps(body).encode()).messages[1:]
    parts = [part for message in replayed for part in message.parts]
    assert [meaning(part) for part in parts] == [meaning(part) for part in result.message.parts]
    assert len(replayed) <= 1


@given(events())
def test_replayed_chat_answer_is_the_generated_answer(script: list[StreamEvent]) -> None:
    result = collect(script)
    answer = json.loads(chat().whole(result))["choices"][0]["message"]
    replayed = replay("chat", CHAT_BODY, answer)
    assert (replayed.text, replayed.thinking, replayed.tool_calls) == (
        result.text,
        result.thinking,
        result.tool_calls,
    )


@given(events(), st.sampled_from(["summarized", "omitted"]))
def test_replayed_message_is_the_generated_answer(script: list[StreamEvent], display: str) -> None:
    result = collect(script)
    content = json.loads(messages(thinking={"type": "adaptive", "display": display}).whole(result))["content"]
    replayed = replay("messages", MESSAGES_BODY, {"role": "assistant", "content": content})
    assert [meaning(part) for part in replayed.parts] == [meaning(part) for part in result.message.parts]


def replay(protocol: str, body: dict[str, Any], answer: dict[str, Any]) -> Message:
    return PROTOCOLS[protocol].parse_alone(json.dumps(body | {"messages": [answer]}).encode()).messages[0]


def meaning(part: Part) -> object:
    """Return a part without its signature and the spelling of its arguments."""
    match part:
        case TextPart() | ThinkingPart():
            return (type(part), part.text)
        case ToolCallPart():
            return (part.id, part.name, complete(part.arguments))
        case _:
            raise AssertionError(part)


def complete(arguments: str) -> object:
    try:
        return json.loads(arguments)
    except ValueError:
        return {}
