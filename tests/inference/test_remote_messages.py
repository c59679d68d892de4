"""Anthropic's Messages API of another server: bodies and event streams."""

from typing import Any

import msgspec
import pytest

from mlxctl.inference.remote.message_events import MessageReader
from mlxctl.inference.remote.messages_body import messages_body
from mlxctl.inference.remote.server_answers import LineReader
from mlxctl.ir import (
    Constraint,
    Finished,
    GenerationRequest,
    ImagePart,
    Message,
    PromptProgress,
    SamplingOptions,
    SamplingParams,
    StreamEvent,
    TextDelta,
    TextPart,
    ThinkingDelta,
    ThinkingPart,
    ToolArgumentsDelta,
    ToolCallEnded,
    ToolCallPart,
    ToolCallStarted,
    ToolChoice,
    ToolResultPart,
    ToolSpec,
    Usage,
    text_message,
)
from mlxctl.ir.errors import ConnectionLost, InvalidRequest, SequenceFailed
from mlxctl.protocols import PROTOCOLS, AnswerStart

ASKED = (text_message("user", "Hi"),)
EVENTS: list[StreamEvent] = [
    ThinkingDelta(text="Hm."),
    TextDelta(text="Well, "),
    TextDelta(text="ünï 🎈\n"),
    ToolCallStarted(index=0, id="c1", name="add"),
    ToolArgumentsDelta(index=0, json='{"a":'),
    ToolArgumentsDelta(index=0, json="1}"),
    ToolCallEnded(index=0),
    ToolCallStarted(index=1, id="c2", name="now"),
    ToolArgumentsDelta(index=1, json="{}"),
    ToolCallEnded(index=1),
    Finished(
        reason="tool_calls",
        usage=Usage(num_prompt_tokens=9, num_cached_tokens=4, num_completion_tokens=8, num_thinking_tokens=2),
    ),
]


def parsed(stream: bytes) -> list[StreamEvent]:
    reader = MessageReader()
    events: list[StreamEvent] = []
    for line in LineReader().feed(stream):
        if line.startswith(b"data: "):
            events += reader.data(line[6:])
    assert reader.is_over
    return [*events, *reader.finish()]


def test_own_stream_is_parsed() -> None:
    protocol = PROTOCOLS["messages"]
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    _, shape = protocol.parse(msgspec.json.encode(body))
    encoder = protocol.create_encoder(shape)
    encoder.start(AnswerStart(model="m", sampling=SamplingParams()))
    usage = Usage(num_prompt_tokens=9, num_cached_tokens=4)
    progress = PromptProgress(num_processed=3, num_cached=0, num_prompt_tokens=9)
    pieces = [encoder.begin(usage), *map(encoder.on_event, [progress, *EVENTS]), encoder.finish()]
    assert parsed(b"".join(pieces)) == EVENTS


def test_body_is_what_the_messages_route_reads() -> None:
    messages = (
        text_message("system", "Be brief."),
        Message(role="user", parts=(TextPart(text="Look"), ImagePart(data=b"png", media_type="image/png"))),
        Message(
            role="assistant",
            parts=(
                ThinkingPart(text="Hm."),
                ToolCallPart(id="c1", name="add", arguments='{"a":1}'),
                ToolCallPart(id="c2", name="add", arguments='{"a":2}'),
            ),
        ),
        Message(role="tool", parts=(ToolResultPart(call_id="c1", content=(TextPart(text="2"),)),)),
        Message(
            role="tool",
            parts=(ToolResultPart(call_id="c2", content=(TextPart(text="?"),), is_error=True),),
        ),
        text_message("user", "And?"),
    )
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    sent = GenerationRequest(
        model="m",
        messages=messages,
        max_tokens=2000,
        stop=("END",),
        sampling=SamplingOptions(temperature=0.5, top_p=0.9, top_k=5),
        tools=(ToolSpec(name="add", parameters=schema),),
        tool_choice=ToolChoice(mode="named", name="add"),
        parallel_tool_calls=False,
        constraint=Constraint(kind="json_schema", value=schema, param="response_format"),
    )
    body = messages_body(sent)
    turns = [message["role"] for message in body["messages"]]
    assert turns == ["user", "assistant", "user"]
    received = PROTOCOLS["messages"].parse_alone(msgspec.json.encode(body))
    # The thinking of earlier answers stays here.
    assert [part for each in received.messages for part in each.parts] == [
        part for each in messages for part in each.parts if not isinstance(part, ThinkingPart)
    ]
    for name in ("stop", "sampling", "tool_choice", "parallel_tool_calls", "max_tokens"):
        assert getattr(received, name) == getattr(sent, name), name
    assert received.constraint is not None
    assert received.constraint.value == schema


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"sampling": SamplingOptions(seed=1)}, "seed"),
        ({"sampling": SamplingOptions(min_p=0.1)}, "min_p"),
        ({"sampling": SamplingOptions(presence_penalty=1.0)}, "presence_penalty"),
        ({"template_kwargs": {"a": 1}}, "chat_template_kwargs"),
        ({"context_overflow": "drop_oldest"}, "context_overflow"),
        ({"constraint": Constraint(kind="regex", value="a+", param="guided_regex")}, "guided_regex"),
        ({"num_choices": 2}, "n"),
    ],
)
def test_option_without_a_field_is_refused_by_name(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"\b{name}\b") as refused:
        messages_body(GenerationRequest(model="m", messages=ASKED, **fields))
    assert refused.value.param == name


def test_neutral_options_are_left_out() -> None:
    sampling = SamplingOptions(presence_penalty=0, frequency_penalty=0.0, logit_bias={}, repetition_penalty=1)
    assert messages_body(GenerationRequest(model="m", messages=ASKED, sampling=sampling)) == {
        "model": "m",
        "max_tokens": 8192,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        "stream": True,
    }


def test_broken_streams_are_errors() -> None:
    with pytest.raises(SequenceFailed, match="overloaded"):
        MessageReader().data(b'{"type":"error","error":{"type":"overloaded_error","message":"overloaded"}}')
    with pytest.raises(ConnectionLost, match="cannot be read"):
        MessageReader().data(b"<html>")
    with pytest.raises(ConnectionLost, match="ended during the answer"):
        MessageReader().finish()
