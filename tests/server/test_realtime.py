"""/v1/realtime with OpenAI's client and with raw messages."""

import io
import json
import shutil
import wave
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import numpy as np
import openai
import pytest
from openai.resources.realtime.realtime import RealtimeConnection
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from mlxctl.formats.adapters.media.resampling import Resampler
from mlxctl.formats.adapters.media.telephone_audio import TelephoneDecoder, TelephoneEncoder
from mlxctl.probe.questions import SPOKEN_SENTENCES
from tests import tiny_models
from tests.tiny_models.audio_samples import speech_audio

from .hosted import HostedServer, hosting
from .process import wait_for

# OpenAI's client calls `connect` of websockets in a way that is to go.
pytestmark = pytest.mark.filterwarnings("ignore:connect:DeprecationWarning")
CHAT, ENDLESS, HEARS, SPEAKS = "qwen3_tools", "endless", "whisper_words", "pocket_tts"
ADMIN = "sk-admin"
RATE = 24_000
TOOL = {
    "type": "function",
    "name": "sky_report",
    "description": "Get the weather of a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "Name of the city"}},
        "required": ["city"],
    },
}
NO_TURNS = {"audio": {"input": {"turn_detection": None}}}
TEXT = {"output_modalities": ["text"], "instructions": ""}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostedServer]:
    """A server for chat models, a transcription and a speech model."""
    speech = tmp_path_factory.mktemp("models") / SPEAKS
    shutil.copytree(tiny_models.speech(SPEAKS), speech)
    models = [tiny_models.model(ENDLESS), tiny_models.trained(CHAT), tiny_models.trained(HEARS), speech]
    served = (option for path in models for option in ("--model", str(path)))
    with hosting(None, *served, "--name", ENDLESS, "--admin-key", ADMIN) as running:
        yield running


@pytest.fixture(scope="module")
def sdk(server: HostedServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=ADMIN, max_retries=0) as client:
        yield client


def spoken(sentence: str) -> bytes:
    """A sentence in 24 kHz samples, and a pause after it."""
    with wave.open(io.BytesIO(speech_audio(sentence))) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float32)
        resampler = Resampler(file.getframerate(), RATE)
    values = np.concatenate((resampler.feed(samples), resampler.finish()))
    return values.clip(-32768, 32767).astype("<i2").tobytes() + bytes(RATE)


def say(session: RealtimeConnection, sentence: str) -> None:
    """Send a sentence in pieces of 100 ms."""
    audio = spoken(sentence)
    for start in range(0, len(audio), RATE // 5):
        session.input_audio_buffer.append(audio=b64encode(audio[start : start + RATE // 5]).decode())


def until(session: RealtimeConnection, kind: str, is_it: Callable[[Any], bool] = lambda _: True) -> list[Any]:
    """Receive events up to one of this type."""
    events: list[Any] = []
    while not events or events[-1].type != kind or not is_it(events[-1]):
        events.append(session.recv())
        assert events[-1].type != "error", events[-1]
    return events


def kinds(events: list[Any]) -> list[str]:
    """The types of events, those of a run once."""
    found = [event.type for event in events]
    return [kind for place, kind in enumerate(found) if not place or found[place - 1] != kind]


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def test_spoken_turn_is_heard_answered_and_spoken(sdk: openai.OpenAI) -> None:
    with sdk.realtime.connect(model=CHAT) as session:
        transcription: Any = {"type": "realtime", "audio": {"input": {"transcription": {"model": HEARS}}}}
        session.session.update(session=transcription)
        session.conversation.item.create(item=user("Hello"))  # type: ignore[arg-type]
        until(session, "conversation.item.done")
        say(session, SPOKEN_SENTENCES[0])
        events = until(session, "response.done")
    assert kinds(events) == [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        "conversation.item.input_audio_transcription.delta",
        "conversation.item.input_audio_transcription.completed",
        "response.created",
        "conversation.item.added",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_audio_transcript.delta",
        "response.output_audio.delta",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    ]
    by_kind = {event.type: event for event in events}
    assert (
        by_kind["conversation.item.input_audio_transcription.completed"].transcript
        == "please open the window"
    )
    sound = b"".join(
        b64decode(event.delta) for event in events if event.type == "response.output_audio.delta"
    )
    answered = events[-1].response
    (item,) = answered.output
    assert (answered.status, item.status, len(sound) % 2) == ("completed", "completed", 0)
    assert len(sound) > RATE // 10
    assert answered.usage.output_token_details.audio_tokens > 0
    assert item.content[0].transcript == by_kind["response.output_audio_transcript.done"].transcript != ""


def test_user_interrupts_an_answer(server: HostedServer, sdk: openai.OpenAI) -> None:
    with sdk.realtime.connect(model=ENDLESS) as session:
        until(session, "session.created")
        session.conversation.item.create(item=user("Hello"))  # type: ignore[arg-type]
        session.response.create()
        first = until(session, "response.output_audio.delta")[-1]
        assert open_requests_of(server, ENDLESS)
        say(session, SPOKEN_SENTENCES[1])
        done = until(session, "response.done")[-1].response
        assert (done.status, done.status_details.reason) == ("cancelled", "turn_detected")
        wait_for(lambda: not open_requests_of(server, SPEAKS), seconds=30)
        session.response.cancel()
        session.conversation.item.truncate(item_id=first.item_id, content_index=0, audio_end_ms=40)
        truncated = until(session, "conversation.item.truncated")[-1]
        session.conversation.item.retrieve(item_id=first.item_id)
        heard = until(session, "conversation.item.retrieved")[-1].item.content[0].transcript
    assert truncated.audio_end_ms == 40
    assert len(heard) < len(done.output[0].content[0].transcript)
    wait_for(lambda: not open_requests_of(server, ENDLESS), seconds=30)


def open_requests_of(server: HostedServer, model: str) -> list[int]:
    views = httpx.get(f"{server.url}/requests", headers={"Authorization": f"Bearer {ADMIN}"}).json()[
        "requests"
    ]
    states = ("waiting", "reading", "answering")
    return [view["number"] for view in views if view["model"] == model and view["state"] in states]


def test_function_is_called_and_its_result_answered(sdk: openai.OpenAI) -> None:
    with sdk.realtime.connect(model=CHAT) as session:
        session.session.update(session={"type": "realtime", "tools": [TOOL], **TEXT})  # type: ignore[arg-type, typeddict-item]
        session.conversation.item.create(item=user("What is the weather in Lisbon?"))  # type: ignore[arg-type]
        session.response.create(response={"metadata": {"turn": "1"}})
        (called,) = (events := until(session, "response.done"))[-1].response.output
        done = next(event for event in events if event.type == "response.function_call_arguments.done")
        # Something else is said before the result comes.
        session.conversation.item.create(item=user("Hello"))  # type: ignore[arg-type]
        result: Any = {"type": "function_call_output", "call_id": called.call_id, "output": "sunny"}
        session.conversation.item.create(item=result)
        session.response.create(response={"conversation": "none", "tools": []})
        answered = until(session, "response.done")[-1].response
    assert (called.name, called.status, json.loads(called.arguments)) == (
        "sky_report",
        "completed",
        {"city": "Lisbon"},
    )
    assert (done.call_id, done.name, done.arguments) == (called.call_id, called.name, called.arguments)
    assert events[-1].response.metadata == {"turn": "1"}
    assert (answered.conversation_id, answered.status) == (None, "completed")
    assert answered.output[0].content[0].text


def test_client_takes_turns_without_detection(sdk: openai.OpenAI) -> None:
    with sdk.realtime.connect(model=CHAT) as session:
        session.session.update(session={"type": "realtime", **TEXT, **NO_TURNS})  # type: ignore[arg-type, typeddict-item]
        session.input_audio_buffer.append(audio=b64encode(bytes(RATE)).decode())
        session.input_audio_buffer.clear()
        session.input_audio_buffer.append(audio=b64encode(spoken(SPOKEN_SENTENCES[2])).decode())
        session.input_audio_buffer.commit()
        item_id = until(session, "input_audio_buffer.committed")[-1].item_id
        session.response.create()
        # Without `transcription` there are no events of it, but the model reads the words.
        events = until(session, "response.done")
        session.conversation.item.retrieve(item_id=item_id)
        heard = until(session, "conversation.item.retrieved")[-1].item
    assert not [event for event in events if "transcription" in event.type]
    assert heard.content[0].transcript == "our garden is green"


def test_session_may_only_transcribe(sdk: openai.OpenAI) -> None:
    with sdk.realtime.connect(extra_query={"intent": "transcription"}) as session:
        created = session.recv()
        update: Any = {"type": "transcription", "audio": {"input": {"transcription": {"model": HEARS}}}}
        session.session.update(session=update)
        say(session, SPOKEN_SENTENCES[1])
        heard = until(session, "conversation.item.input_audio_transcription.completed")[-1]
        session.response.create()
        refused: Any = session.recv()
    assert created.session.type == "transcription"  # type: ignore[union-attr]
    assert heard.transcript == "my brother likes music"
    assert refused.error.code == "invalid_value"


def raw(server: HostedServer, query: str = f"?model={CHAT}", key: str = ADMIN) -> ClientConnection:
    url = f"{server.url.replace('http', 'ws', 1)}/v1/realtime{query}"
    # As a browser sends the key.
    return connect(url, subprotocols=["realtime", f"openai-insecure-api-key.{key}"])  # type: ignore[list-item]


def update(**session: Any) -> dict[str, Any]:
    return {"type": "session.update", "event_id": "mine", "session": session}


def hearing(**fields: Any) -> dict[str, Any]:
    return update(audio={"input": fields})


def speaking(**fields: Any) -> dict[str, Any]:
    return update(audio={"output": fields})


def creating(item: dict[str, Any], after: str | None = None) -> dict[str, Any]:
    return {"type": "conversation.item.create", "item": item, "previous_item_id": after}


VAD = {"type": "server_vad", "idle_timeout_ms": 0}
CUT = {"item_id": "none", "content_index": 0, "audio_end_ms": 1}
RESULT = {"type": "function_call_output", "call_id": "c", "output": ""}
PICTURE = {"type": "message", "role": "system", "content": [{"type": "input_image"}]}
# What is sent, the code, and the field.
BAD: list[tuple[str | bytes | dict[str, Any], str, str | None]] = [
    ("no JSON", "invalid_json", None),
    (b"\xff\x00\x7f", "invalid_json", None),
    ("[]", "invalid_json", None),
    ({}, "missing_required_parameter", "type"),
    ({"type": "session.delete"}, "invalid_value", "type"),
    ({"type": "input_audio_buffer.append"}, "missing_required_parameter", "audio"),
    ({"type": "input_audio_buffer.append", "audio": "?"}, "invalid_value", "audio"),
    ({"type": "input_audio_buffer.append", "audio": "AAAA"}, "invalid_value", "audio"),
    ({"type": "input_audio_buffer.commit"}, "input_audio_buffer_commit_empty", None),
    (hearing(format={"type": "audio/opus"}), "invalid_value", "session.audio.input.format.type"),
    (hearing(turn_detection=VAD), "invalid_value", "session.audio.input.turn_detection.idle_timeout_ms"),
    (hearing(transcription={"model": CHAT}), "model_not_supported", "model"),
    (speaking(voice="unknown"), "invalid_value", "session.audio.output.voice"),
    (speaking(speed=1.2), "invalid_value", "session.audio.output.speed"),
    (update(prompt={"id": "p"}), "unsupported_parameter", "session.prompt"),
    (update(tools=[{"type": "mcp"}]), "invalid_value", "session.tools[0].type"),
    (creating(PICTURE), "invalid_value", "item.content[0].type"),
    (creating(RESULT), "invalid_tool_call_id", "item.call_id"),
    (creating(user("Hi"), "none"), "item_create_invalid_item_id", "previous_item_id"),
    ({"type": "conversation.item.retrieve", "item_id": "none"}, "item_retrieve_invalid_item_id", "item_id"),
    ({"type": "conversation.item.delete", "item_id": "none"}, "item_delete_invalid_item_id", "item_id"),
    ({"type": "conversation.item.truncate"} | CUT, "item_truncate_invalid_item_id", "item_id"),
    ({"type": "response.cancel"}, "response_cancel_not_active", "response_id"),
]


def test_bad_events_get_errors_and_the_session_goes_on(server: HostedServer) -> None:
    with raw(server) as socket:
        assert json.loads(socket.recv())["type"] == "session.created"
        for message, code, param in BAD:
            socket.send(json.dumps(message) if isinstance(message, dict) else message)
            refused = json.loads(socket.recv())
            assert (refused["type"], refused["error"]["code"], refused["error"]["param"]) == (
                "error",
                code,
                param,
            )
            asked_id = message.get("event_id") if isinstance(message, dict) else None
            assert (refused["error"]["event_id"], refused["error"]["type"]) == (
                asked_id,
                "invalid_request_error",
            )
        socket.send(json.dumps({"type": "input_audio_buffer.clear"}))
        assert json.loads(socket.recv())["type"] == "input_audio_buffer.cleared"


def test_a_telephone_speaks_and_hears_in_its_format(sdk: openai.OpenAI) -> None:
    sound = spoken(SPOKEN_SENTENCES[0])
    formats: Any = {
        "type": "realtime",
        "audio": {
            "input": {
                "format": {"type": "audio/pcmu"},
                "turn_detection": None,
                "transcription": {"model": HEARS},
            },
            "output": {"format": {"type": "audio/pcma"}},
        },
    }
    heard, answers = TelephoneEncoder("audio/pcmu"), TelephoneDecoder("audio/pcma")
    with sdk.realtime.connect(model=CHAT) as session:
        session.session.update(session=formats)
        updated = until(session, "session.updated")[-1].session.audio
        session.input_audio_buffer.append(audio=b64encode(heard.feed(sound) + heard.finish()).decode())
        session.input_audio_buffer.commit()
        session.response.create()
        events = until(session, "response.done")
    assert (updated.input.format.type, updated.output.format.type) == ("audio/pcmu", "audio/pcma")
    by_kind = {event.type: event for event in events}
    completed = by_kind["conversation.item.input_audio_transcription.completed"]
    assert completed.transcript == "please open the window"
    said = b"".join(b64decode(each.delta) for each in events if each.type == "response.output_audio.delta")
    samples = np.frombuffer(answers.feed(said) + answers.finish(), "<i2")
    assert len(samples) == 3 * len(said) > RATE // 10
    assert np.abs(samples).max() > 100


def test_a_silent_user_is_spoken_to(sdk: openai.OpenAI) -> None:
    detection = {"type": "server_vad", "idle_timeout_ms": 100}
    asked: Any = {"type": "realtime", **TEXT, "audio": {"input": {"turn_detection": detection}}}
    with sdk.realtime.connect(model=CHAT) as session:
        session.session.update(session=asked)
        session.conversation.item.create(item=user("Hello"))  # type: ignore[arg-type]
        session.response.create()
        until(session, "response.done")
        events = until(session, "response.done")
    assert kinds(events)[:4] == [
        "input_audio_buffer.timeout_triggered",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
    ]
    assert events[0].item_id == events[1].item_id
    assert events[-1].response.status == "completed"


def test_silence_and_noise_without_words_get_no_answer(sdk: openai.OpenAI) -> None:
    with sdk.realtime.connect(model=CHAT) as session:
        until(session, "session.created")
        for _ in range(30):
            session.input_audio_buffer.append(audio=b64encode(bytes(RATE)).decode())
        session.input_audio_buffer.commit()
        events = until(session, "conversation.item.done")
    assert kinds(events) == [
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
    ]


def made_key(server: HostedServer, **fields: Any) -> str:
    added = httpx.post(f"{server.url}/admin/keys", json=fields, headers={"Authorization": f"Bearer {ADMIN}"})
    return str(added.json()["key"])


def test_rights_of_the_key_hold_for_each_response(server: HostedServer) -> None:
    key = made_key(server, name="listener", scopes=["audio"], models=[CHAT, HEARS])
    with raw(server, key=key) as socket:
        created = json.loads(socket.recv())
        socket.send(json.dumps({"type": "response.create"}))
        done = [json.loads(socket.recv()) for _ in range(2)][-1]["response"]
    # It may not use the speech model.
    assert created["session"]["output_modalities"] == ["text"]
    assert (done["status"], done["status_details"]["error"]["code"]) == ("failed", "insufficient_scope")


@pytest.mark.parametrize(("query", "status"), [("?model=missing", 404), (f"?model={HEARS}", 400)])
def test_session_needs_a_chat_model(server: HostedServer, query: str, status: int) -> None:
    with pytest.raises(InvalidStatus) as refused:
        raw(server, query)
    assert refused.value.response.status_code == status
