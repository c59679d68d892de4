"""Inference by another server: same events, clear errors."""

import asyncio
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from server.process import ServerProcess, wait_for

from mlxctl.inference.remote import RemoteInference
from mlxctl.inference.remote.chunks import ChunkReader
from mlxctl.inference.remote.request_body import chat_body
from mlxctl.inference.remote.server_answers import LineReader
from mlxctl.ir import (
    Constraint,
    Finished,
    GenerationRequest,
    ImagePart,
    Message,
    PromptProgress,
    Repetition,
    SamplingOptions,
    SamplingParams,
    StreamEvent,
    TextDelta,
    TextPart,
    TextResult,
    ThinkingDelta,
    ThinkingOptions,
    ThinkingPart,
    ToneCurveOptions,
    ToolArgumentsDelta,
    ToolCallEnded,
    ToolCallPart,
    ToolCallStarted,
    ToolResultPart,
    ToolSpec,
    Usage,
    collect,
    text_message,
)
from mlxctl.ir.errors import (
    AuthenticationFailed,
    CapacityError,
    ConnectionLost,
    InvalidRequest,
    MlxctlError,
    SequenceFailed,
    ServerUnreachable,
    SettingsError,
    UnknownModel,
)
from mlxctl.protocols import PROTOCOLS, AnswerStart
from mlxctl.protocols.openai.chat import ChatEncoder, parse_chat

from .scripted_server import ScriptedServer, listening, stream

ASKED = GenerationRequest(model="other", messages=(text_message("user", "Hi"),))
EVENTS: list[StreamEvent] = [
    PromptProgress(num_processed=3, num_cached=0, num_prompt_tokens=9),
    ThinkingDelta(text="Hm."),
    TextDelta(text="Well, "),
    TextDelta(text="ünï 🎈\n"),
    ToolCallStarted(index=0, id="c1", name="add"),
    ToolArgumentsDelta(index=0, json='{"a":'),
    ToolArgumentsDelta(index=0, json="1}"),
    ToolCallEnded(index=0),
    ToolCallStarted(index=1, id="c2", name="now"),
    ToolCallEnded(index=1),
    Finished(
        reason="tool_calls",
        usage=Usage(num_prompt_tokens=9, num_cached_tokens=4, num_completion_tokens=8, num_thinking_tokens=2),
    ),
]


def encode_request(request: GenerationRequest) -> bytes:
    return msgspec.json.encode(chat_body(request))


def sse_bytes(events: list[StreamEvent]) -> bytes:
    """Return what mlxctl's own server sends for these events."""
    _, shape = parse_chat(encode_request(ASKED))
    encoder = ChatEncoder(shape)
    encoder.start(AnswerStart(model="tiny", sampling=SamplingParams()))
    return b"".join(
        [encoder.begin(Usage(num_prompt_tokens=9)), *map(encoder.on_event, events), encoder.finish()]
    )


def parsed(pieces: list[bytes]) -> list[StreamEvent]:
    """Return the client's events for bytes that arrive in these pieces."""
    lines, reader = LineReader(), ChunkReader()
    events: list[StreamEvent] = []
    for piece in pieces:
        for line in lines.feed(piece):
            if line.startswith(b":"):
                events += reader.comment(line[1:])
            elif line.startswith(b"data: {"):
                events += reader.data(line[6:])
    return [*events, *reader.finish()]


@given(st.lists(st.integers(0, len(sse_bytes(EVENTS))), max_size=30))
def test_own_stream_is_parsed_however_it_is_split(cuts: list[int]) -> None:
    body, places = sse_bytes(EVENTS), sorted(cuts)
    pieces = [body[begin:end] for begin, end in zip([0, *places], [*places, None], strict=True)]
    assert parsed(pieces) == EVENTS


async def ask(server: ScriptedServer, request: GenerationRequest = ASKED) -> TextResult:
    async with listening(server):
        remote = RemoteInference(server.url)
        generation = None
        try:
            generation = await remote.generate(request)
            return await generation.result()
        finally:
            if generation is not None:
                generation.cancel()
            await remote.close()


def test_other_servers_field_names_are_parsed() -> None:
    body = stream(
        '{"choices":[{"delta":{"role":"assistant","content":null,"reasoning":"Hm."}}]}',
        '{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"add","arguments":"{}"}}]}}]}',
        '{"choices":[{"delta":{"tool_calls":[{"function":{"name":"now","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}',
    )
    result = asyncio.run(ask(ScriptedServer(body)))
    assert result.thinking == "Hm."
    assert [call.name for call in result.tool_calls] == ["add", "now"]
    assert all(call.id for call in result.tool_calls)


def test_stream_needs_a_finish_reason_but_no_done_mark() -> None:
    chunk = '{"choices":[{"delta":{"content":"Yes"}%s}]}'
    whole = ScriptedServer(stream(chunk % ',"finish_reason":"stop"', done=False))
    assert asyncio.run(ask(whole)).text == "Yes"
    with pytest.raises(ConnectionLost, match="during the answer"):
        asyncio.run(ask(ScriptedServer(stream(chunk % "", done=False))))


def test_error_in_mid_stream_keeps_the_servers_message() -> None:
    with pytest.raises(SequenceFailed, match="out of memory"):
        asyncio.run(ask(ScriptedServer(stream('{"error":{"message":"out of memory"}}'))))


def test_invalid_chunk_raises_connection_lost() -> None:
    with pytest.raises(ConnectionLost, match="cannot be read"):
        asyncio.run(ask(ScriptedServer(stream("<html>"))))


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (b"400 Bad Request", InvalidRequest),
        (b"401 Unauthorized", AuthenticationFailed),
        (b"503 Service Unavailable", CapacityError),
        (b"500 Internal Server Error", SequenceFailed),
    ],
)
def test_error_response_becomes_an_error_with_its_message(status: bytes, error: type[MlxctlError]) -> None:
    server = ScriptedServer(b'{"error":{"message":"no way"}}', status=status, headers=b"Retry-After: 7\r\n")
    with pytest.raises(error, match="no way") as caught:
        asyncio.run(ask(server))
    if isinstance(caught.value, CapacityError):
        assert caught.value.retry_after_seconds == 7.0


async def opened(url: str) -> RemoteInference:
    remote = RemoteInference(url)
    try:
        await remote.wait_ready()
    finally:
        await remote.close()
    return remote


def test_refused_connection_names_the_url() -> None:
    with pytest.raises(ServerUnreachable, match=r"http://127\.0\.0\.1:1/v1: the connection is refused"):
        asyncio.run(opened("127.0.0.1:1"))


@pytest.mark.parametrize(("status", "body"), [(b"200 OK", b"<html>Hello</html>"), (b"404 Not Found", b"")])
def test_url_without_model_list_is_reported(status: bytes, body: bytes) -> None:
    async def look() -> None:
        async with listening(ScriptedServer(b"", models=body, models_status=status)) as server:
            await opened(server.url)

    with pytest.raises(
        ServerUnreachable, match="returns no list of models, as an OpenAI-compatible server would"
    ):
        asyncio.run(look())


def test_first_model_that_can_chat_is_chosen() -> None:
    listed = b'{"data":[{"id":"vectors","kind":"embedding"},{"id":"talker","kind":"text"}]}'

    async def chosen() -> str:
        async with listening(ScriptedServer(b"", models=listed)) as server:
            return (await opened(server.url)).find_model(None).name

    assert asyncio.run(chosen()) == "talker"


@pytest.mark.parametrize("url", ["ftp://there", "http://", "http://[:::"])
def test_invalid_url_is_rejected(url: str) -> None:
    with pytest.raises(SettingsError, match="URL"):
        RemoteInference(url)


def encoded(**fields: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(
        encode_request(GenerationRequest(**{"model": "m", "messages": ASKED.messages, **fields}))
    )
    return body


def test_unset_options_are_not_sent() -> None:
    assert encoded().keys() == {"model", "messages", "stream", "stream_options"}


def test_set_options_are_sent() -> None:
    tool = ToolSpec(name="add", parameters={"type": "object"})
    body = encoded(
        sampling=SamplingOptions(temperature=0.0, seed=3),
        max_tokens=5,
        tools=(tool,),
        thinking=ThinkingOptions(enabled=False),
    )
    assert (body["temperature"], body["seed"], body["max_tokens"]) == (0.0, 3, 5)
    assert body["tools"][0]["function"]["name"] == "add"
    assert body["chat_template_kwargs"] == {"enable_thinking": False}


SAMPLING = SamplingOptions(
    typical_p=0.9,
    xtc_probability=0.5,
    xtc_threshold=0.2,
    min_tokens=3,
    tone_curve=ToneCurveOptions(enabled=True, width=2.0),
    repetition=Repetition(multiplier=0.8, num_last=64, breakers=("a",)),
    speculation=False,
)


@pytest.mark.parametrize(
    "constraint",
    [
        None,
        Constraint(
            kind="json_schema",
            value={"type": "object"},
            param="response_format.json_schema.schema",
            is_strict=True,
        ),
        Constraint(kind="choice", value=("a", "b"), param="structured_outputs.choice"),
        Constraint(kind="grammar", value='start: "a"', param="structured_outputs.grammar"),
    ],
)
def test_own_server_parses_the_same_request(constraint: Constraint | None) -> None:
    sent = GenerationRequest(
        model="m",
        messages=(text_message("user", "Hi"),),
        sampling=SAMPLING,
        thinking=ThinkingOptions(max_tokens=9),
        constraint=constraint,
        tools=(ToolSpec(name="f", is_strict=True),),
    )
    received = PROTOCOLS["chat"].parse_alone(encode_request(sent))
    assert (received.sampling, received.thinking, received.constraint, received.tools) == (
        SAMPLING,
        sent.thinking,
        constraint,
        sent.tools,
    )


def test_thinking_is_sent_only_for_the_current_turn() -> None:
    def thought(*more: ToolCallPart) -> Message:
        return Message(role="assistant", parts=(ThinkingPart(text="Hm."), *more))

    call = ToolCallPart(id="c", name="add", arguments="{}")
    messages = (*ASKED.messages, thought(), *ASKED.messages, thought(call))
    chunk = encoded(messages=messages)["messages"]
    assert ["reasoning_content" in message for message in chunk] == [False, False, False, True]


def test_images_are_sent_in_user_messages_and_tool_results() -> None:
    image = ImagePart(data=b"pixels", media_type="image/png")
    call = Message(role="assistant", parts=(ToolCallPart(id="c", name="look", arguments="{}"),))
    shown = Message(
        role="tool", parts=(ToolResultPart(call_id="c", content=(TextPart(text="Here:"), image)),)
    )
    sent = GenerationRequest(
        model="m", messages=(Message(role="user", parts=(image, TextPart(text="And?"))), call, shown)
    )

    assert PROTOCOLS["chat"].parse_alone(encode_request(sent)).messages == sent.messages


def test_unsupported_options_are_rejected() -> None:
    with pytest.raises(InvalidRequest, match="raw prompts"):
        encode_request(GenerationRequest(model="m", prompts=("a",)))


def test_real_server_answers(demo_server: ServerProcess) -> None:
    async def talk() -> tuple[RemoteInference, list[StreamEvent]]:
        remote = RemoteInference(demo_server.url)
        await remote.wait_ready()
        name = remote.find_model(None).name
        sampling = SamplingOptions(temperature=0.0)
        generation = await remote.generate(
            GenerationRequest(model=name, messages=ASKED.messages, sampling=sampling, max_tokens=20)
        )
        events = [event async for batch in generation for event in batch]
        generation.cancel()
        await remote.close()
        return remote, events

    remote, events = asyncio.run(talk())
    model = remote.find_model(None)
    assert (model.supports_tools, model.is_demo) == (True, True)
    assert model.context_length is not None
    assert remote.find_model("demo") == model
    assert collect(events).usage.num_prompt_tokens > 0
    with pytest.raises(UnknownModel):
        remote.find_model("gpt-9")


def test_cancel_ends_the_request_on_the_server(demo_server: ServerProcess) -> None:
    async def leave() -> None:
        remote = RemoteInference(demo_server.url)
        await remote.wait_ready()
        name = remote.find_model(None).name
        generation = await remote.generate(
            GenerationRequest(model=name, messages=ASKED.messages, max_tokens=4000)
        )
        await anext(generation)
        generation.cancel()
        await asyncio.to_thread(wait_for, lambda: demo_server.health()["open_requests"] == 0, seconds=20)
        await remote.close()

    asyncio.run(leave())
