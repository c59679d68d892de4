"""Speech requests: fields, voices, and events."""

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxctl.ir import SpeechRecipe
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.openai.speech import (
    OPENAI_VOICES,
    SpeechEvents,
    encode_voices,
    find_voice,
    parse_speech,
)

PLAIN = SpeechRecipe(family="soprano", sample_rate=32_000)
NAMED = SpeechRecipe(
    family="qwen3_tts",
    sample_rate=24_000,
    voices=["ryan", "Vivian", "echo"],
    default_voice="Vivian",
    languages=["english"],
)


def parse(**fields: Any) -> Any:
    return parse_speech(json.dumps({"model": "m", "input": "Hello.", **fields}).encode())


def test_only_model_and_input_are_needed() -> None:
    asked = parse()
    assert (asked.model, asked.text, asked.voice, asked.instructions) == ("m", "Hello.", None, None)
    assert (asked.format, asked.speed, asked.sends_events) == ("mp3", 1.0, False)


def test_home_assistant_sends_the_text_none_for_no_instructions() -> None:
    asked = parse(voice="marin", instructions="None", speed=1.0, response_format="opus")
    assert (asked.voice, asked.instructions, asked.format) == ("marin", None, "opus")
    assert parse(instructions=" Whisper. ").instructions == "Whisper."


def test_voice_may_be_an_object_or_empty() -> None:
    assert parse(voice={"id": "ryan"}).voice == "ryan"
    assert parse(voice="").voice is None


def test_unknown_fields_are_ignored() -> None:
    assert parse(user="u", stream=True, lang_code="a").text == "Hello."


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({"input": ""}, "input", "no text to speak"),
        ({"input": "\n\x07\u200b \u202e"}, "input", "no text to speak"),
        ({"input": "x" * 4097}, "input", "length <= 4096"),
        ({"input": ["x"]}, "input", "must be a string"),
        (
            {"response_format": "aac"},
            "response_format",
            "use one of: 'flac', 'mp3', 'opus', 'pcm', 'wav'",
        ),
        ({"stream_format": "json"}, "stream_format", "use one of: 'audio', 'sse'"),
        ({"speed": 0.2}, "speed", ">= 0.25"),
        ({"speed": 4.5}, "speed", "<= 4.0"),
        ({"voice": 7}, "voice", "must be a string or an object"),
        ({"voice": {"name": "ryan"}}, "voice.id", "is missing"),
        ({"ref_text": "Hello."}, "ref_text", "needs ref_audio"),
        ({"ref_audio": "aGk="}, "ref_text", "ref_audio needs ref_text"),
        ({"ref_audio": "?", "ref_text": "Hello."}, "ref_audio", "is not valid base64"),
        ({"ref_audio": "https://a/b.wav", "ref_text": "Hello."}, "ref_audio", "is not fetched"),
    ],
)
def test_invalid_fields_are_named(fields: dict[str, Any], param: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message) as raised:
        parse(**fields)
    assert raised.value.param == param


def test_recording_is_base64_or_a_data_url() -> None:
    encoded = b64encode(b"RIFF").decode()
    for sent in (encoded, f"data:audio/wav;base64,{encoded}"):
        asked = parse(ref_audio=sent, ref_text="Hello.")
        assert (asked.recording, asked.recorded_text) == (b"RIFF", "Hello.")


@settings(max_examples=30)
@given(st.text(alphabet="aé7.?👋🏽שم \n\x07\u200b\u202e", max_size=20))
def test_any_text_is_spoken_as_it_is_or_has_nothing_to_speak(text: str) -> None:
    if any(character in "aé7.?👋🏽שم" for character in text):
        assert parse(input=text).text == text
    else:
        with pytest.raises(InvalidRequest, match="no text to speak"):
            parse(input=text)


def test_each_openai_voice_is_always_the_same_voice_of_the_model() -> None:
    found = [find_voice(name, NAMED) for name in OPENAI_VOICES]
    assert found == [find_voice(name.upper(), NAMED) for name in OPENAI_VOICES]
    assert set(found) == set(NAMED.voices)
    assert find_voice("echo", NAMED) == "echo"
    assert {find_voice(name, PLAIN) for name in OPENAI_VOICES} == {None}


def test_voices_are_found_in_any_case_and_the_default_by_its_name() -> None:
    assert find_voice("vivian", NAMED) == "Vivian"
    assert find_voice("default", NAMED) is find_voice(None, NAMED) is None
    own = SpeechRecipe(family="pocket_tts", sample_rate=24_000, voices=["alba", "default"])
    assert find_voice("Default", own) == "default"


def test_other_voices_stay_as_they_are_asked_for() -> None:
    assert find_voice("rian", NAMED) == find_voice("rian", PLAIN) == "rian"


def test_list_names_each_voice_with_its_model() -> None:
    listed = json.loads(encode_voices([("a", NAMED), ("b", PLAIN)]))["voices"]
    assert [(each["id"], each["model"], each["is_default"]) for each in listed] == [
        ("ryan", "a", False),
        ("Vivian", "a", True),
        ("echo", "a", False),
        ("default", "b", True),
    ]


def test_events_carry_base64_and_usage() -> None:
    events = SpeechEvents()
    delta, done = events.delta(b"\x00\xff"), events.done(num_text_tokens=3, num_audio_tokens=4)
    assert json.loads(delta.removeprefix(b"data: ")) == {"type": "speech.audio.delta", "audio": "AP8="}
    assert json.loads(done.removeprefix(b"data: ")) == {
        "type": "speech.audio.done",
        "usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
    }
