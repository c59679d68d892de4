"""Transcriptions over HTTP with OpenAI's SDK, beside a chat model."""

import asyncio
import re
from collections.abc import Iterator
from functools import partial
from threading import Event
from typing import Any

import httpx
import openai
import pytest
from openai.types.audio import Transcription, TranscriptionVerbose, TranslationVerbose

from mlxctl.probe.questions import SPOKEN_SENTENCES
from mlxctl.server.resources.audio import transcriptions
from tests import tiny_models
from tests.tiny_models.audio_samples import noise, silence, speech_audio
from tests.tiny_models.whisper_words import WINDOW_SECONDS

from .hosted import HostedServer, hosting
from .long_jobs import check_chat_continues_beside, check_disconnect_frees, open_requests
from .openapi_validation import check_answer, check_stream
from .process import wait_for

MODEL = "whisper_words"
TRANSCRIPTIONS = "/v1/audio/transcriptions"
WORDS = ["please open the window", "my brother likes music", "our garden is green"]


@pytest.fixture(scope="module")
def model_server() -> Iterator[HostedServer]:
    """A server for a chat model, `endless`, and a transcription model."""
    with hosting(
        None,
        "--model",
        str(tiny_models.model("endless")),
        "--name",
        "endless",
        "--model",
        str(tiny_models.trained(MODEL)),
    ) as running:
        yield running


@pytest.fixture(scope="module")
def sdk(model_server: HostedServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{model_server.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


@pytest.mark.parametrize(("sentence", "words"), list(zip(SPOKEN_SENTENCES, WORDS, strict=True)))
def test_speech_is_transcribed(sdk: openai.OpenAI, sentence: str, words: str) -> None:
    transcription = sdk.audio.transcriptions.create(model=MODEL, file=speech_audio(sentence))
    assert isinstance(transcription, Transcription)
    assert transcription.text == words
    assert transcription.usage is not None
    assert transcription.usage.type == "duration"


def test_long_file_is_transcribed_with_timestamps(
    sdk: openai.OpenAI,
) -> None:
    sound = speech_audio(*SPOKEN_SENTENCES[:2], every_seconds=WINDOW_SECONDS)
    transcription = sdk.audio.transcriptions.create(
        model=MODEL,
        file=sound,
        response_format="verbose_json",
        timestamp_granularities=["segment"],
        language="en",
    )
    assert isinstance(transcription, TranscriptionVerbose)
    assert transcription.text == " ".join(WORDS[:2])
    assert (transcription.language, transcription.duration) == (
        "en",
        pytest.approx(len(sound) / 2 / 22_050, abs=0.05),
    )
    assert transcription.segments is not None
    times = [time for segment in transcription.segments for time in (segment.start, segment.end)]
    assert times == sorted(times)
    for number, segment in enumerate(transcription.segments):
        assert number * WINDOW_SECONDS < segment.start < segment.end <= (number + 1) * WINDOW_SECONDS
        assert segment.seek == number * WINDOW_SECONDS * 100


def test_words_of_whisper_have_times(sdk: openai.OpenAI) -> None:
    sound = speech_audio(*SPOKEN_SENTENCES[:2], every_seconds=WINDOW_SECONDS)
    answer = sdk.audio.transcriptions.create(
        model=MODEL, file=sound, response_format="verbose_json", timestamp_granularities=["word"]
    )
    assert isinstance(answer, TranscriptionVerbose)
    assert answer.words is not None
    assert " ".join(word.word for word in answer.words) == answer.text == " ".join(WORDS[:2])
    times = [time for word in answer.words for time in (word.start, word.end)]
    assert times == sorted(times)
    assert answer.words[4].word == "my"
    assert WINDOW_SECONDS <= answer.words[4].start < 2 * WINDOW_SECONDS


def test_subtitles_have_timed_cues(sdk: openai.OpenAI) -> None:
    sound = speech_audio(SPOKEN_SENTENCES[0])
    sent: dict[str, Any] = {"model": MODEL, "file": sound}
    assert sdk.audio.transcriptions.create(**sent, response_format="text") == f"{WORDS[0]}\n"
    srt = str(sdk.audio.transcriptions.create(**sent, response_format="srt"))
    assert re.fullmatch(rf"1\n00:00:00,\d{{3}} --> 00:00:0\d,\d{{3}}\n{WORDS[0]}\n\n", srt)
    vtt = str(sdk.audio.transcriptions.create(**sent, response_format="vtt"))
    assert re.fullmatch(rf"WEBVTT\n\n00:00:00\.\d{{3}} --> 00:00:0\d\.\d{{3}}\n{WORDS[0]}\n\n", vtt)


def test_stream_sends_each_window_then_the_whole_text(sdk: openai.OpenAI) -> None:
    sound = speech_audio(*SPOKEN_SENTENCES[:2], every_seconds=WINDOW_SECONDS)
    whole = sdk.audio.transcriptions.create(model=MODEL, file=sound)
    events = list(sdk.audio.transcriptions.create(model=MODEL, file=sound, stream=True))
    deltas = [event.delta for event in events if event.type == "transcript.text.delta"]
    assert (len(deltas), "".join(deltas)) == (2, whole.text)
    assert [event.type for event in events[-1:]] == ["transcript.text.done"]
    assert events[-1].model_dump()["text"] == whole.text


def test_stream_of_silence_has_no_text(sdk: openai.OpenAI) -> None:
    events = list(sdk.audio.transcriptions.create(model=MODEL, file=silence(0.5), stream=True))
    assert events[-1].model_dump()["text"] == "".join(event.model_dump().get("delta", "") for event in events)


def test_stream_events_match_the_description(model_server: HostedServer) -> None:
    answer = httpx.post(
        f"{model_server.url}/audio/transcriptions",
        data={"model": MODEL, "stream": "true"},
        files={"file": speech_audio(SPOKEN_SENTENCES[0])},
        timeout=60,
    )
    assert answer.headers["content-type"] == "text/event-stream"
    check_stream(answer.text, TRANSCRIPTIONS)


def test_any_sample_format_gives_the_same_text(sdk: openai.OpenAI) -> None:
    sound = speech_audio(SPOKEN_SENTENCES[1])
    first, again = (
        sdk.audio.transcriptions.create(model=MODEL, file=sound, prompt=WORDS[0]) for _ in range(2)
    )
    assert first == again


def test_languages_and_keywords_are_taken(sdk: openai.OpenAI) -> None:
    answer = sdk.audio.transcriptions.create(
        model=MODEL,
        file=speech_audio(SPOKEN_SENTENCES[2]),
        response_format="verbose_json",
        chunking_strategy="auto",
        extra_body={"languages": ["en"], "keywords": [WORDS[0]]},
    )
    assert isinstance(answer, TranscriptionVerbose)
    assert answer.language == "en"


def test_translation_differs_from_transcription(sdk: openai.OpenAI) -> None:
    with pytest.warns(DeprecationWarning, match="deprecated"):
        transcription = sdk.audio.translations.create(
            model=MODEL, file=speech_audio(SPOKEN_SENTENCES[2]), response_format="verbose_json"
        )
    assert isinstance(transcription, TranslationVerbose)
    assert transcription.language == "en"
    assert transcription.segments


def test_answers_match_the_description(model_server: HostedServer) -> None:
    for shape in ("json", "verbose_json"):
        for route in (TRANSCRIPTIONS, "/v1/audio/translations"):
            answer = httpx.post(
                f"{model_server.url}{route}",
                data={"model": MODEL, "response_format": shape},
                files={"file": speech_audio(SPOKEN_SENTENCES[0])},
                timeout=60,
            )
            check_answer(answer.json(), "post", route)


@pytest.mark.parametrize(
    ("sent", "param", "message"),
    [
        ({"file": b"a text, no sound"}, "file", "send WAV, FLAC, MP3 or Ogg"),
        ({"file": b""}, "file", "file is empty"),
        ({"language": "xx"}, "language", "language 'xx' is not supported by the model; it supports en"),
        (
            {"response_format": "xml"},
            "response_format",
            "is 'xml', which is not supported here; use one of: 'diarized_json', 'json', 'srt'",
        ),
        ({"temperature": 1.5}, "temperature", "must be a number <= 1.0"),
        (
            {"stream": True, "response_format": "srt"},
            "response_format",
            "response_format srt cannot be streamed; request json",
        ),
        (
            {"response_format": "diarized_json"},
            "response_format",
            "needs a diarization model; serve Sortformer, too",
        ),
        ({"languages": ["xx"]}, "languages", "language 'xx' is not supported by the model; it supports en"),
        ({"languages": ["en"], "language": "en"}, "languages", "exclude each other"),
        ({"chunking_strategy": {"type": "server_vad"}}, "chunking_strategy", "as auto only"),
        (
            {"timestamp_granularities": ["segment"]},
            "timestamp_granularities",
            "needs response_format verbose_json",
        ),
        ({"include": ["logprobs"]}, "include", "include is not supported"),
        ({"model": "endless"}, "model", "generates text and takes no audio"),
    ],
)
def test_unsupported_fields_are_refused_by_name(
    sdk: openai.OpenAI, sent: dict[str, Any], param: str, message: str
) -> None:
    with pytest.raises(openai.BadRequestError, match=message) as raised:
        sdk.audio.transcriptions.create(**{"model": MODEL, "file": silence(0.5), **sent})
    assert raised.value.param == param


def test_non_form_body_is_refused(model_server: HostedServer) -> None:
    for kind, body in (
        ("text/plain", b"{}"),
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=a", b"--a\r\nx"),
        (
            "multipart/form-data; boundary=a",
            b'--a\r\ncontent-disposition: form-data; name="f\xe9le"\r\n\r\nx\r\n--a--\r\n',
        ),
    ):
        answer = httpx.post(
            f"{model_server.url}{TRANSCRIPTIONS}", content=body, headers={"content-type": kind}
        )
        assert answer.status_code == 400
        assert "form" in answer.json()["error"]["message"]
    missing = httpx.post(
        f"{model_server.url}{TRANSCRIPTIONS}", data={"model": MODEL}, files={"sound": b"x"}
    ).json()["error"]
    assert (missing["param"], missing["code"]) == ("file", "missing_required_parameter")


def test_only_transcription_model_answers_to_any_name(sdk: openai.OpenAI) -> None:
    assert sdk.audio.transcriptions.create(model="whisper-1", file=silence(0.5)).text == ""


def test_transcription_model_refuses_chat_and_embeddings(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="send audio to /v1/audio/transcriptions") as raised:
        sdk.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hello!"}])
    assert (raised.value.param, raised.value.code) == ("model", "model_not_supported")
    with pytest.raises(openai.BadRequestError, match="send audio to /v1/audio/transcriptions"):
        sdk.embeddings.create(model=MODEL, input="Hello!")


def test_embeddings_of_a_text_model_name_the_command_for_an_embedding_model(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match=r"`mlxctl models pull qwen3-embedding:0\.6b`, then"):
        sdk.embeddings.create(model="endless", input="Hello!")


def test_model_list_and_metrics_name_the_transcription_model(
    model_server: HostedServer, sdk: openai.OpenAI
) -> None:
    sdk.audio.transcriptions.create(model=MODEL, file=silence(0.5))
    models = {
        model["id"]: model for model in httpx.get(f"{model_server.url}/v1/models", timeout=60).json()["data"]
    }
    assert models[MODEL]["kind"] == "speech-to-text"
    capabilities = models[MODEL]["capabilities"]
    assert not capabilities["structured_outputs"]["supported"]
    assert not capabilities["thinking"]["supported"]
    assert re.search(
        rf'^mlxctl_requests_total{{.*model="{MODEL}".*}} [1-9]',
        httpx.get(f"{model_server.url}/metrics").text,
        re.MULTILINE,
    )


def test_speech_model_is_no_chat_model_for_other_lists(model_server: HostedServer) -> None:
    shown = httpx.post(f"{model_server.url}/api/show", json={"model": MODEL}, timeout=60).json()
    assert shown["capabilities"] == []
    for path, key in (("/api/v0/models", "data"), ("/api/v1/models", "models")):
        listed = httpx.get(f"{model_server.url}{path}", timeout=60).json()[key]
        assert [model.get("id") or model["key"] for model in listed] == ["endless"]


def test_chat_continues_while_a_file_is_transcribed(model_server: HostedServer) -> None:
    check_chat_continues_beside(model_server, MODEL, lambda: transcribe_for_long(model_server, 60))


def test_disconnect_cancels_the_work(model_server: HostedServer) -> None:
    check_disconnect_frees(model_server, MODEL, partial(transcribe_for_long, model_server))


def test_leaving_a_stream_cancels_the_work(model_server: HostedServer, sdk: openai.OpenAI) -> None:
    sound = speech_audio(*SPOKEN_SENTENCES[:1] * 40, every_seconds=WINDOW_SECONDS)
    stream = sdk.audio.transcriptions.create(model=MODEL, file=sound, stream=True)
    assert next(iter(stream)).type == "transcript.text.delta"
    assert open_requests(model_server, MODEL)
    stream.close()
    wait_for(lambda: not open_requests(model_server, MODEL), seconds=30)


def test_files_that_take_long_to_decode_leave_other_threads_free(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = Event()
    monkeypatch.setattr(transcriptions, "AudioFile", lambda _, is_cancelled: may_end.wait())

    async def serve() -> None:
        opening = [
            asyncio.create_task(transcriptions.open_audio(b"", is_cancelled=may_end)) for _ in range(64)
        ]
        try:
            async with asyncio.timeout(20):
                await asyncio.to_thread(bool)
        finally:
            may_end.set()
            await asyncio.gather(*opening)

    asyncio.run(serve())


def transcribe_for_long(server: HostedServer, seconds: float) -> httpx.Response:
    form: dict[str, Any] = {"data": {"model": MODEL}, "files": {"file": noise(800)}}
    return httpx.post(f"{server.url}{TRANSCRIPTIONS}", **form, timeout=seconds)
