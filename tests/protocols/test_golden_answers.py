"""Every byte that clients get, as files to be reviewed."""

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from mlxctl.errors import EngineDied
from mlxctl.ir import StreamEvent, ThinkingDelta, collect
from mlxctl.protocols import Formatter

from .scripts import CUT_OFF, SCORED, SCRIPTS, STOPPED, THINKING, TWO_CALLS, chat, completion, interleaved, messages, stream


@pytest.mark.parametrize("script", SCRIPTS)
def test_chat(script: str, golden: SnapshotAssertion) -> None:
    assert stream(chat(), SCRIPTS[script]).decode() == golden


@pytest.mark.parametrize("script", SCRIPTS)
def test_messages(script: str, golden: SnapshotAssertion) -> None:
    assert stream(messages(), SCRIPTS[script]).decode() == golden


@pytest.mark.parametrize("protocol", ["chat", "messages"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_whole(protocol: str, script: str, golden: SnapshotAssertion) -> None:
    formatter: Formatter = chat() if protocol == "chat" else messages()
    assert msgspec.json.format(formatter.whole(collect(SCRIPTS[script]))).decode() == golden


def test_chat_with_usage(golden: SnapshotAssertion) -> None:
    assert stream(chat(stream_options={"include_usage": True}), THINKING).decode() == golden


def test_chat_with_three_choices(golden: SnapshotAssertion) -> None:
    formatter = chat(n=3, stream_options={"include_usage": True})
    assert interleaved(formatter, CUT_OFF, TWO_CALLS, THINKING).decode() == golden


def test_chat_with_logprobs(golden: SnapshotAssertion) -> None:
    assert stream(chat(logprobs=True, top_logprobs=2), SCORED).decode() == golden


def test_completions(golden: SnapshotAssertion) -> None:
    formatter = completion(prompt=["Once", "Twice"], logprobs=1, stream_options={"include_usage": True})
    assert interleaved(formatter, SCORED, CUT_OFF).decode() == golden


def test_whole_completions(golden: SnapshotAssertion) -> None:
    body = completion(prompt=["Once", "Twice"], logprobs=1).whole(collect(SCORED), collect(STOPPED))
    assert msgspec.json.format(body).decode() == golden


def test_messages_with_omitted_thinking(golden: SnapshotAssertion) -> None:
    assert stream(messages(thinking={"type": "adaptive", "display": "omitted"}), THINKING).decode() == golden


@pytest.mark.parametrize(
    "said",
    [(), (ThinkingDelta(text="Hm"),), TWO_CALLS[:1], TWO_CALLS[:3]],
    ids=["nothing_said", "in_thinking", "in_text", "in_a_call"],
)
@pytest.mark.parametrize("protocol", ["chat", "messages"])
def test_error_in_the_middle(protocol: str, said: tuple[StreamEvent, ...], golden: SnapshotAssertion) -> None:
    formatter: Formatter = chat() if protocol == "chat" else messages()
    wire = formatter.begin(12) + b"".join(map(formatter.on_event, said)) + formatter.on_error(EngineDied("the engine died"))
    assert wire.decode() == golden
