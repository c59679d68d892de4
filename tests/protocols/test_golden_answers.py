"""Golden bytes of whole answers and streams."""

from collections.abc import Callable

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from mlxctl.ir import (
    Finished,
    StreamEvent,
    ThinkingDelta,
    ToolArgumentsDelta,
    ToolCallEnded,
    ToolCallStarted,
    Usage,
    collect,
)
from mlxctl.ir.errors import EngineDied
from mlxctl.protocols import Encoder

from .scripts import (
    CUT_OFF,
    SCORED,
    SCRIPTS,
    STOPPED,
    THINKING,
    TWO_CALLS,
    USAGE,
    chat,
    completion,
    interleaved,
    messages,
    responses,
    stream,
)

MAKERS: dict[str, Callable[[], Encoder]] = {"chat": chat, "messages": messages, "responses": responses}


@pytest.mark.parametrize("script", SCRIPTS)
def test_chat(script: str, golden: SnapshotAssertion) -> None:
    assert stream(chat(), SCRIPTS[script]).decode() == golden


@pytest.mark.parametrize("script", SCRIPTS)
def test_messages(script: str, golden: SnapshotAssertion) -> None:
    assert stream(messages(), SCRIPTS[script]).decode() == golden


@pytest.mark.parametrize("script", SCRIPTS)
def test_responses(script: str, golden: SnapshotAssertion) -> None:
    assert stream(responses(), SCRIPTS[script]).decode() == golden


def test_responses_with_a_summary_and_carried_thinking(golden: SnapshotAssertion) -> None:
    encoder = responses(reasoning={"summary": "auto"}, include=["reasoning.encrypted_content"])
    assert stream(encoder, THINKING).decode() == golden


def test_responses_with_logprobs(golden: SnapshotAssertion) -> None:
    assert stream(responses(top_logprobs=2), SCORED).decode() == golden


def test_responses_with_a_tool_of_a_namespace(golden: SnapshotAssertion) -> None:
    tools = [
        {
            "type": "namespace",
            "name": "home",
            "description": "At home",
            "tools": [{"type": "function", "name": "lamp"}],
        }
    ]
    called = (
        ToolCallStarted(index=0, id="call_1", name="home__lamp"),
        ToolArgumentsDelta(index=0, json="{}"),
        ToolCallEnded(index=0),
        Finished(reason="tool_calls", usage=USAGE),
    )
    assert stream(responses(tools=tools), called).decode() == golden


@pytest.mark.parametrize("protocol", MAKERS)
@pytest.mark.parametrize("script", SCRIPTS)
def test_whole(protocol: str, script: str, golden: SnapshotAssertion) -> None:
    encoder = MAKERS[protocol]()
    assert msgspec.json.format(encoder.whole(collect(SCRIPTS[script]))).decode() == golden


def test_chat_with_usage(golden: SnapshotAssertion) -> None:
    assert stream(chat(stream=True, stream_options={"include_usage": True}), THINKING).decode() == golden


def test_chat_with_three_choices(golden: SnapshotAssertion) -> None:
    encoder = chat(n=3, stream=True, stream_options={"include_usage": True})
    assert interleaved(encoder, CUT_OFF, TWO_CALLS, THINKING).decode() == golden


def test_chat_with_logprobs(golden: SnapshotAssertion) -> None:
    assert stream(chat(logprobs=True, top_logprobs=2), SCORED).decode() == golden


def test_completions(golden: SnapshotAssertion) -> None:
    encoder = completion(
        prompt=["Once", "Twice"], logprobs=2, stream=True, stream_options={"include_usage": True}
    )
    assert interleaved(encoder, SCORED, CUT_OFF).decode() == golden


def test_whole_completions(golden: SnapshotAssertion) -> None:
    body = completion(prompt=["Once", "Twice"], logprobs=2).whole(collect(SCORED), collect(STOPPED))
    assert msgspec.json.format(body).decode() == golden


def test_messages_with_omitted_thinking(golden: SnapshotAssertion) -> None:
    assert stream(messages(thinking={"type": "adaptive", "display": "omitted"}), THINKING).decode() == golden


@pytest.mark.parametrize(
    "begun",
    [(), (ThinkingDelta(text="Hm"),), TWO_CALLS[:1], TWO_CALLS[:3]],
    ids=["nothing_said", "in_thinking", "in_text", "in_a_call"],
)
@pytest.mark.parametrize("protocol", MAKERS)
def test_error_in_the_middle(
    protocol: str, begun: tuple[StreamEvent, ...], golden: SnapshotAssertion
) -> None:
    encoder = MAKERS[protocol]()
    wire = (
        encoder.begin(Usage(num_prompt_tokens=12))
        + b"".join(map(encoder.on_event, begun))
        + encoder.on_error(EngineDied("the engine died"))
    )
    assert wire.decode() == golden
