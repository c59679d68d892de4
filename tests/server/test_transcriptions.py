"""Speech to text from a real server, asked by OpenAI's SDK in its own types; beside it, a model that chats."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest
from openai.types.audio import Transcription, TranscriptionVerbose, TranslationVerbose

from mlxctl.probe.questions import SPOKEN_SENTENCES
from tests import tiny_models
from tests.tiny_models.audio_samples import silence, speech_audio
from tests.tiny_models.whisper_words import WINDOW_SECONDS

from .openapi_validation import check_answer
from .process import ServerProcess, serving

MODEL = "whisper_words"
TRANSCRIPTIONS = "/v1/audio/transcriptions"
WORDS = ["please open the window", "my brother likes music", "our garden is green"]


@pytest.fixture(scope="module")
def house() -> Iterator[ServerProcess]:
    """A server for a model that chats, `endless`, and one that writes down speech."""
    with serving(
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
def sdk(house: ServerProcess) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{house.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


@pytest.mark.parametrize(("sentence", "words"), list(zip(SPOKEN_SENTENCES, WORDS, strict=True)))
def test_what_is_said_is_written(sdk: openai.OpenAI, sentence: str, words: str) -> None:
    heard = sdk.audio.transcriptions.create(model=MODEL, file=speech_audio(sentence))
    assert isinstance(heard, Transcription)
    assert heard.text == words
    assert heard.usage is not None
    assert heard.usage.type == "duration"


def test_a_file_of_several_windows_is_written_from_beginning_to_end_with_its_times(
    sdk: openai.OpenAI,
) -> None:
    sound = speech_audio(*SPOKEN_SENTENCES[:2], every_seconds=WINDOW_SECONDS)
    heard = sdk.audio.transcriptions.create(
        model=MODEL,
        file=sound,
        response_format="verbose_json",
        timestamp_granularities=["segment"],
        language="en",
    )
    assert isinstance(heard, TranscriptionVerbose)
    assert heard.text == " ".join(WORDS[:2])
    assert (heard.language, heard.duration) == ("en", pytest.approx(len(sound) / 2 / 22_050, abs=0.05))
    assert heard.segments is not None
    times = [time for segment in heard.segments for time in (segment.start, segment.end)]
    assert times == sorted(times)
    for number, segment in enumerate(heard.segments):
        assert number * WINDOW_SECONDS < segment.start < segment.end <= (number + 1) * WINDOW_SECONDS
        assert segment.seek == number * WINDOW_SECONDS * 100


def test_subtitles_are_cues_with_times(sdk: openai.OpenAI) -> None:
    sound = speech_audio(SPOKEN_SENTENCES[0])
    asked: dict[str, Any] = {"model": MODEL, "file": sound}
    assert sdk.audio.transcriptions.create(**asked, response_format="text") == f"{WORDS[0]}\n"
    srt = str(sdk.audio.transcriptions.create(**asked, response_format="srt"))
    assert re.fullmatch(rf"1\n00:00:00,\d{{3}} --> 00:00:0\d,\d{{3}}\n{WORDS[0]}\n\n", srt)
    vtt = str(sdk.audio.transcriptions.create(**asked, response_format="vtt"))
    assert re.fullmatch(rf"WEBVTT\n\n00:00:00\.\d{{3}} --> 00:00:0\d\.\d{{3}}\n{WORDS[0]}\n\n", vtt)


def test_the_same_file_is_written_the_same_and_may_come_in_any_format_of_samples(sdk: openai.OpenAI) -> None:
    sound = speech_audio(SPOKEN_SENTENCES[1])
    first, again = (
        sdk.audio.transcriptions.create(model=MODEL, file=sound, prompt=WORDS[0]) for _ in range(2)
    )
    assert first == again


def test_a_translation_is_told_apart(sdk: openai.OpenAI) -> None:
    with pytest.warns(DeprecationWarning, match="deprecated"):
        heard = sdk.audio.translations.create(
            model=MODEL, file=speech_audio(SPOKEN_SENTENCES[2]), response_format="verbose_json"
        )
    assert isinstance(heard, TranslationVerbose)
    assert heard.language == "en"
    assert heard.segments


def test_answers_are_as_described(house: ServerProcess) -> None:
    for shape in ("json", "verbose_json"):
        for route in (TRANSCRIPTIONS, "/v1/audio/translations"):
            answer = httpx.post(
                f"{house.url}{route}",
                data={"model": MODEL, "response_format": shape},
                files={"file": speech_audio(SPOKEN_SENTENCES[0])},
                timeout=60,
            )
            check_answer(answer.json(), "post", route)


@pytest.mark.parametrize(
    ("asked", "param", "complaint"),
    [
        ({"file": b"a text, no sound"}, "file", "send WAV, FLAC or MP3"),
        ({"file": b""}, "file", "file is empty"),
        ({"language": "xx"}, "language", "language 'xx' is not known to the model; it knows en"),
        (
            {"response_format": "xml"},
            "response_format",
            "is 'xml', which is not supported here; use one of: 'json', 'srt', 'text'",
        ),
        ({"temperature": 1.5}, "temperature", "must be a number <= 1.0"),
        ({"stream": True}, "stream", "stream is not supported for transcriptions here"),
        ({"timestamp_granularities": ["word"]}, "timestamp_granularities", "times of single words"),
        (
            {"timestamp_granularities": ["segment"]},
            "timestamp_granularities",
            "needs response_format verbose_json",
        ),
        ({"include": ["logprobs"]}, "include", "include is not supported here"),
        ({"model": "endless"}, "model", "generates text and takes no audio"),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_field(
    sdk: openai.OpenAI, asked: dict[str, Any], param: str, complaint: str
) -> None:
    with pytest.raises(openai.BadRequestError, match=complaint) as refusal:
        sdk.audio.transcriptions.create(**{"model": MODEL, "file": silence(0.5), **asked})
    assert refusal.value.param == param


def test_a_body_that_is_no_form_is_refused(house: ServerProcess) -> None:
    for kind, body in (
        ("application/json", b"{}"),
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=a", b"--a\r\nx"),
        (
            "multipart/form-data; boundary=a",
            b'--a\r\ncontent-disposition: form-data; name="f\xe9le"\r\n\r\nx\r\n--a--\r\n',
        ),
    ):
        answer = httpx.post(f"{house.url}{TRANSCRIPTIONS}", content=body, headers={"content-type": kind})
        assert answer.status_code == 400
        assert "form" in answer.json()["error"]["message"]
    missing = httpx.post(f"{house.url}{TRANSCRIPTIONS}", data={"model": MODEL}, files={"sound": b"x"}).json()[
        "error"
    ]
    assert (missing["param"], missing["code"]) == ("file", "missing_required_parameter")


def test_an_unknown_model_is_not_found(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        sdk.audio.transcriptions.create(model="nobody", file=silence(0.5))


def test_a_model_that_hears_cannot_chat_or_embed_and_says_where_to_go(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="send audio to /v1/audio/transcriptions") as refusal:
        sdk.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hello!"}])
    assert (refusal.value.param, refusal.value.code) == ("model", "model_not_supported")
    with pytest.raises(openai.BadRequestError, match="send audio to /v1/audio/transcriptions"):
        sdk.embeddings.create(model=MODEL, input="Hello!")


def test_the_list_of_models_and_the_counts_tell_of_it(house: ServerProcess, sdk: openai.OpenAI) -> None:
    sdk.audio.transcriptions.create(model=MODEL, file=silence(0.5))
    models = {model["id"]: model for model in httpx.get(f"{house.url}/v1/models", timeout=60).json()["data"]}
    assert models[MODEL]["kind"] == "speech-to-text"
    assert re.search(
        rf'^mlxctl_requests_total{{.*model="{MODEL}".*}} [1-9]',
        httpx.get(f"{house.url}/metrics").text,
        re.MULTILINE,
    )


def test_a_chat_goes_on_while_a_long_file_is_written_down(house: ServerProcess, sdk: openai.OpenAI) -> None:
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(sdk.audio.transcriptions.create, model=MODEL, file=silence(120))
        while not any(is_open(view) for view in requests(house)):
            assert not job.done()
            time.sleep(0.01)
        answer = sdk.chat.completions.create(
            model="endless", messages=[{"role": "user", "content": "Hello!"}], max_tokens=16, temperature=0
        )
        was_over = job.done()
        assert isinstance(job.result(), Transcription)
    assert answer.usage is not None
    assert (answer.usage.completion_tokens, was_over) == (16, False)


def test_a_client_that_leaves_stops_the_work(house: ServerProcess) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{house.url}{TRANSCRIPTIONS}", data={"model": MODEL}, files={"file": silence(800)}, timeout=1.5
        )
    deadline = time.monotonic() + 5
    while any(is_open(view) for view in requests(house)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert httpx.post(f"{house.url}/models/unload", json={"model": MODEL}, timeout=60).status_code == 200


def requests(house: ServerProcess) -> list[dict[str, Any]]:
    views: list[dict[str, Any]] = httpx.get(f"{house.url}/requests", timeout=60).json()["requests"]
    return views


def is_open(view: dict[str, Any]) -> bool:
    return view["model"] == MODEL and view["state"] in ("waiting", "reading", "answering")
