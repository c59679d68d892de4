"""Sessions, items and conversations of OpenAI's Realtime API."""

import json
from typing import Any

import pytest

from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.openai.realtime.client_events import ItemCreate, SessionUpdate, parse_event
from mlxctl.protocols.openai.realtime.conversation import MAX_ITEMS, Conversation
from mlxctl.protocols.openai.realtime.items import (
    CallItem,
    CallOutputItem,
    Item,
    MessageItem,
    model_input,
    shown,
)
from mlxctl.protocols.openai.realtime.session import Session, updated

SESSION = Session(id="sess_1", type="realtime", model="tiny", expires_at=0)


def update(session: Session, **fields: Any) -> Session:
    event = parse_event(json.dumps({"type": "session.update", "session": fields}).encode())
    assert isinstance(event, SessionUpdate)
    return updated(session, event.session, path="session")


def item(**fields: Any) -> Item:
    event = parse_event(json.dumps({"type": "conversation.item.create", "item": fields}).encode())
    assert isinstance(event, ItemCreate)
    return event.item


def message(role: str, text: str, **fields: Any) -> Item:
    kind = "output_text" if role == "assistant" else "input_text"
    return item(type="message", role=role, content=[{"type": kind, "text": text}], **fields)


def test_update_changes_what_it_has() -> None:
    changed = update(SESSION, instructions="Hi", audio={"output": {"voice": {"id": "ada"}}})
    changed = update(changed, max_output_tokens=5, audio={"input": {"turn_detection": None}})
    assert (changed.instructions, changed.max_output_tokens) == ("Hi", 5)
    assert (changed.audio.output.voice, changed.audio.input.turn_detection) == ("ada", None)
    assert changed.audio.input.format == SESSION.audio.input.format


def test_null_is_the_default_again() -> None:
    changed = update(
        update(SESSION, instructions="Hi", tool_choice="none"), instructions=None, tool_choice=None
    )
    assert changed == SESSION


def test_eagerness_chooses_the_pause() -> None:
    detections = [
        update(SESSION, audio={"input": {"turn_detection": {"type": "semantic_vad", "eagerness": how}}})
        for how in ("high", "auto", "low")
    ]
    pauses = [each.audio.input.turn_detection.silence_duration_ms for each in detections]  # type: ignore[union-attr]
    assert pauses == sorted(set(pauses))


def test_result_follows_its_call_and_an_open_call_has_one_too() -> None:
    items = [
        message("user", "Weather?"),
        CallItem(call_id="a", name="sky", arguments='{"city": "Rome"}'),
        CallItem(call_id="b", name="sky"),
        message("assistant", "One moment."),
        CallOutputItem(call_id="a", output="sunny"),
    ]
    given = [(each["type"], each.get("call_id"), each.get("output")) for each in model_input(items)]
    assert given == [
        ("message", None, None),
        ("function_call", "a", None),
        ("function_call_output", "a", "sunny"),
        ("function_call", "b", None),
        ("function_call_output", "b", "There is no result yet."),
        ("message", None, None),
    ]


def test_model_reads_transcripts_and_no_empty_messages() -> None:
    heard = item(type="message", role="user", content=[{"type": "input_audio", "transcript": "Hello"}])
    silent = item(type="message", role="user", content=[{"type": "input_audio", "audio": "AAAA"}])
    (given,) = model_input([heard, silent])
    assert given["content"] == [{"type": "input_text", "text": "Hello"}]
    assert shown(silent)["content"] == [{"type": "input_audio", "transcript": None}]


def test_items_are_inserted_after_others() -> None:
    conversation = Conversation()
    assert conversation.add(message("user", "1", id="one")) is None
    assert conversation.add(message("user", "2", id="two")) == "one"
    assert conversation.add(message("user", "3", id="three"), after="one") == "one"
    assert conversation.add(message("user", "0", id="zero"), after="root") is None
    assert [each.id for each in conversation.items] == ["zero", "one", "three", "two"]


def test_conversation_is_bounded_and_ids_are_its_own() -> None:
    conversation = Conversation()
    conversation.items = [
        MessageItem(id=str(number), role="user", content=[]) for number in range(MAX_ITEMS - 1)
    ]
    with pytest.raises(InvalidRequest, match="already"):
        conversation.add(message("user", "Hi", id="1"))
    conversation.add(message("user", "Hi", id="last"))
    with pytest.raises(InvalidRequest, match="4096 items"):
        conversation.add(message("user", "Hi", id="more"))
