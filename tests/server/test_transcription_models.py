"""Models of speech other than Whisper, over HTTP with OpenAI's SDK."""

import base64
import io
import json
import shutil
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import openai
import pytest
import soundfile
from openai.types.audio import TranscriptionTextSegmentEvent, TranscriptionVerbose

from tests.engine.test_transcription_models import samples
from tests.tiny_models.audio_samples import silence, wav
from tests.tiny_models.transcription_models import transcription_model

from .hosted import HostedServer, hosting
from .openapi_validation import check_answer, check_stream

PARAKEET, QWEN, ALIGNER, DIARIZER = "parakeet_tdt", "qwen3_asr", "qwen3_forced_aligner", "sortformer"
TRANSCRIPTIONS = "/v1/audio/transcriptions"
SOUND = wav(samples())


@pytest.fixture(scope="module")
def speech_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostedServer]:
    directory = tmp_path_factory.mktemp("models")
    options = [
        option
        for name in (PARAKEET, QWEN, ALIGNER, DIARIZER)
        for option in ("--model", str(shutil.copytree(transcription_model(name), directory / name)))
    ]
    with hosting(None, *options) as running:
        yield running


@pytest.fixture(scope="module")
def sdk(speech_server: HostedServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{speech_server.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


def verbose(sdk: openai.OpenAI, **fields: Any) -> TranscriptionVerbose:
    answer = sdk.audio.transcriptions.create(
        **{"model": PARAKEET, "file": SOUND, "response_format": "verbose_json", **fields}
    )
    assert isinstance(answer, TranscriptionVerbose)
    return answer


def test_words_have_times_and_make_up_the_text(sdk: openai.OpenAI) -> None:
    answer = verbose(sdk, timestamp_granularities=["word", "segment"])
    assert answer.words is not None
    assert answer.segments is not None
    assert " ".join(word.word for word in answer.words) == answer.text
    assert all(0 <= word.start <= word.end <= 5.1 for word in answer.words)
    assert (answer.segments[0].start, answer.segments[-1].end) == (
        answer.words[0].start,
        max(word.end for word in answer.words[-3:]),
    )
    assert verbose(sdk, timestamp_granularities=["word"]).segments is None
    assert verbose(sdk).words is None


def test_an_aligner_of_the_server_times_the_words_of_other_models(sdk: openai.OpenAI) -> None:
    answer = verbose(sdk, model=QWEN, language="en", timestamp_granularities=["word"])
    assert answer.words
    assert "".join(word.word for word in answer.words).replace(" ", "") in answer.text.replace(" ", "")
    assert answer.language == "en"


def diarized_with(name: str, sound: bytes) -> dict[str, Any]:
    """The fields of a request with one known speaker."""
    reference = f"data:audio/wav;base64,{base64.b64encode(sound).decode()}"
    return {
        "response_format": "diarized_json",
        "known_speaker_names": [name],
        "known_speaker_references": [reference],
    }


def test_segments_have_speakers_in_the_order_of_their_times(sdk: openai.OpenAI) -> None:
    sound = wav(samples() * 8)
    answer = sdk.audio.transcriptions.create(model=PARAKEET, file=sound, response_format="diarized_json")
    assert (answer.task, answer.duration) == ("transcribe", 40)
    assert " ".join(segment.text for segment in answer.segments) == answer.text
    assert [segment.start for segment in answer.segments] == sorted(each.start for each in answer.segments)
    speakers = list(dict.fromkeys(segment.speaker for segment in answer.segments))
    assert speakers == ["A", "B", "C"]
    events = list(
        sdk.audio.transcriptions.create(
            model=PARAKEET, file=sound, response_format="diarized_json", stream=True
        )
    )
    assert [event for event in events if event.type == "transcript.text.segment"] == [
        TranscriptionTextSegmentEvent(**segment.model_dump()) for segment in answer.segments
    ]
    deltas = [event for event in events if event.type == "transcript.text.delta"]
    assert [delta.segment_id for delta in deltas] == [segment.id for segment in answer.segments]


def test_a_known_speaker_has_a_name(sdk: openai.OpenAI) -> None:
    answer = sdk.audio.transcriptions.create(
        model=PARAKEET, file=wav(samples() * 4), **diarized_with("Ada", wav(samples()))
    )
    assert {"Ada", "A"} <= {segment.speaker for segment in answer.segments}


def test_silence_is_not_transcribed_and_later_speech_keeps_its_times(sdk: openai.OpenAI) -> None:
    late = verbose(
        sdk,
        file=wav(bytes(2 * 16_000 * 100) + samples()),
        timestamp_granularities=["word", "segment"],
    )
    assert late.words
    assert late.segments
    assert {segment.seek for segment in late.segments} == {late.segments[0].seek}
    assert 9_900 < late.segments[0].seek <= 10_000
    assert 99 < late.words[0].start < late.words[-1].end < 105.1
    assert verbose(sdk, file=silence(500)).text == ""


def test_long_files_are_cut_and_streamed_with_times(sdk: openai.OpenAI) -> None:
    sound = wav(samples() * 14)
    whole = verbose(sdk, file=sound)
    events = list(sdk.audio.transcriptions.create(model=PARAKEET, file=sound, stream=True))
    deltas = [event.model_dump() for event in events if event.type == "transcript.text.delta"]
    assert "".join(delta["delta"] for delta in deltas) == whole.text == events[-1].model_dump()["text"]
    assert whole.segments is not None
    assert len(deltas) == len(whole.segments) > 2
    assert [delta["end"] for delta in deltas] == [round(segment.end, 3) for segment in whole.segments]
    assert all(delta["duration"] == 70 for delta in deltas)
    assert len({segment.seek for segment in whole.segments}) == 2


def test_answers_and_events_match_the_description(speech_server: HostedServer) -> None:
    form = {"model": PARAKEET, "response_format": "verbose_json", "timestamp_granularities[]": "word"}
    url = f"{speech_server.url}{TRANSCRIPTIONS}"
    check_answer(httpx.post(url, data=form, files={"file": SOUND}).json(), "post", TRANSCRIPTIONS)
    diarized = {"model": PARAKEET, "response_format": "diarized_json"}
    check_answer(httpx.post(url, data=diarized, files={"file": SOUND}).json(), "post", TRANSCRIPTIONS)
    streamed = httpx.post(url, data=diarized | {"stream": "true"}, files={"file": SOUND})
    check_stream(streamed.text, TRANSCRIPTIONS)


def test_open_webui_sends_json(speech_server: HostedServer, sdk: openai.OpenAI) -> None:
    audio = {"data": base64.b64encode(SOUND).decode(), "format": "wav"}
    url = f"{speech_server.url}{TRANSCRIPTIONS}"
    answer = httpx.post(url, json={"model": QWEN, "language": "de", "input_audio": audio})
    assert answer.json()["text"] == verbose(sdk, model=QWEN, language="de").text
    for body, param in (
        ({"model": QWEN}, "input_audio"),
        ({"model": QWEN, "input_audio": {"data": "?"}}, "input_audio.data"),
        ({"input_audio": audio}, "model"),
        ({"model": QWEN, "input_audio": audio, "stream": "maybe"}, "stream"),
    ):
        refused = httpx.post(url, json=body)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize(
    "kind", [("OGG", "OPUS"), ("OGG", "VORBIS"), ("FLAC", "PCM_16"), ("MP3", "MPEG_LAYER_III")]
)
def test_every_format_is_decoded(sdk: openai.OpenAI, kind: tuple[str, str]) -> None:
    file = io.BytesIO()
    sound = np.repeat(np.frombuffer(samples(), np.int16), 3)
    soundfile.write(file, np.stack([sound, sound], axis=1), 48_000, format=kind[0], subtype=kind[1])
    assert verbose(sdk, file=("speech.txt", file.getvalue())).duration == pytest.approx(5, abs=0.1)


def truncated_ogg() -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.frombuffer(samples(), np.int16), 16_000, format="OGG", subtype="OPUS")
    return file.getvalue()[:200]


@pytest.mark.parametrize(
    ("sent", "param", "message"),
    [
        ({"language": "de"}, "language", "language 'de' is not supported by the model; it supports en"),
        ({"prompt": "sail"}, "prompt", "prompt is not supported by model 'parakeet_tdt'"),
        ({"keywords": ["sail"]}, "keywords", "keywords is not supported"),
        ({"temperature": 0.5}, "temperature", "temperature is not supported"),
        ({"model": QWEN, "language": "fr"}, "language", "it supports de, en"),
        ({"model": QWEN, "languages": ["de", "en"]}, "languages", "takes one; name one"),
        ({"model": ALIGNER}, "model", "finds the times of the words of a known text and transcribes nothing"),
        ({"model": DIARIZER}, "model", "finds who speaks when and transcribes nothing"),
        ({"known_speaker_names": ["Ada"]}, "known_speaker_names", "needs response_format diarized_json"),
        (
            {"response_format": "diarized_json", "known_speaker_names": ["Ada"]},
            "known_speaker_references",
            "must have one audio file for each",
        ),
        (
            diarized_with("Ada", wav(samples() * 3)),
            "known_speaker_references[0]",
            "holds 15.0 seconds of audio; send 2 to 10 seconds",
        ),
        (diarized_with("Ada", b"RIFF"), "known_speaker_references[0]", "known_speaker_references.0.: file"),
        ({"file": truncated_ogg()}, "file", "file is damaged"),
        ({"file": b"OggS" + bytes(100)}, "file", "file is damaged"),
        ({"file": wav(b"")}, "file", "holds 0.00 seconds of audio"),
        ({"file": b"\0\0\0\x18ftypM4A "}, "file", "is MP4 .M4A., which is decoded on macOS only"),
        ({"file": b"\x1a\x45\xdf\xa3" * 9}, "file", "is WebM or Matroska"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(
    sdk: openai.OpenAI, sent: dict[str, Any], param: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    extra = {name: sent.pop(name) for name in ("keywords", "languages") if name in sent}
    with pytest.raises(openai.BadRequestError, match=message) as raised:
        sdk.audio.transcriptions.create(**{"model": PARAKEET, "file": SOUND, **sent}, extra_body=extra)
    assert raised.value.param == param


def test_home_assistant_may_name_the_language_of_parakeet(sdk: openai.OpenAI) -> None:
    answer = verbose(sdk, language="en")
    assert (answer.language, answer.text) == ("en", verbose(sdk).text)


def test_a_header_that_claims_more_than_there_is_and_many_channels_are_read(sdk: openai.OpenAI) -> None:
    claims_more = bytearray(SOUND)
    claims_more[40:44] = b"\xff" * 4
    assert verbose(sdk, file=bytes(claims_more)).text == verbose(sdk).text
    eight = np.repeat(np.frombuffer(samples(), np.int16), 8).tobytes()
    assert verbose(sdk, file=wav(eight, num_channels=8)).text == verbose(sdk).text


def test_translation_by_a_model_that_cannot_is_refused(sdk: openai.OpenAI) -> None:
    with (
        pytest.warns(DeprecationWarning, match="deprecated"),
        pytest.raises(openai.BadRequestError, match="cannot translate"),
    ):
        sdk.audio.translations.create(model=PARAKEET, file=SOUND)


def test_model_lists_name_the_purpose(speech_server: HostedServer) -> None:
    models = json.loads(httpx.get(f"{speech_server.url}/v1/models", timeout=60).text)["data"]
    assert {model["id"]: model["kind"] for model in models} == {
        PARAKEET: "speech-to-text",
        QWEN: "speech-to-text",
        ALIGNER: "alignment",
        DIARIZER: "diarization",
    }
