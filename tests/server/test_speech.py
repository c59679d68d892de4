"""Speech over HTTP: OpenAI's SDK, Home Assistant's and Open WebUI's requests."""

import io
import re
import shutil
from base64 import b64decode, b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import miniaudio
import msgspec
import openai
import pytest
import soundfile
from fuzz.bodies import SPEECH_BODIES
from fuzz.mutations import FuzzedRequest, requests
from fuzz.volley import AT_ONCE, Volley
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests import tiny_models
from tests.tiny_models.audio_samples import silence, speech_audio, wav
from tests.tiny_models.soprano_words import SAMPLE_RATE as SPEAKER_RATE
from tests.tiny_models.whisper_words import DIGITS

from .hosted import HostedServer, hosting
from .long_jobs import open_requests
from .openapi_validation import check_answer, check_stream
from .process import wait_for

VOICED, PLAIN = "pocket_tts", "soprano"
# Trained with the same sentences and digits.
SPEAKER, LISTENER = "soprano_words", "whisper_words"
SPEECH = "/v1/audio/speech"
TEXT = "Hello world. The quick brown fox jumps over the lazy dog. Hello again, the lazy dog said."
# Its 12 MB are more than a connection holds whose client does not read.
LONG = "The quick brown fox jumps over the lazy dog. " * 91
SEED = {"seed": 7}
_WAV_HEADER_BYTES = 44


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostedServer]:
    """A server with `endless`, and with models that speak and listen."""
    models = tmp_path_factory.mktemp("models")
    for name in (VOICED, PLAIN):
        shutil.copytree(tiny_models.speech(name), models / name)
    for name in (SPEAKER, LISTENER):
        shutil.copytree(tiny_models.trained(name), models / name)
    named = ("--model", str(tiny_models.model("endless")), "--name", "endless")
    served = (
        option for name in (VOICED, PLAIN, SPEAKER, LISTENER) for option in ("--model", str(models / name))
    )
    with hosting(None, *named, *served) as running:
        yield running


@pytest.fixture(scope="module")
def sdk(server: HostedServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


def spoken(sdk: openai.OpenAI, **fields: Any) -> bytes:
    """The samples of a text for one seed, as 16 bits."""
    extra = SEED | fields.pop("extra_body", {})
    asked: dict[str, Any] = {"model": VOICED, "voice": "ada", "input": TEXT, "response_format": "pcm"}
    return sdk.audio.speech.create(**(asked | fields), extra_body=extra).content


def seconds_of(kind: str, data: bytes) -> float:
    if kind == "opus":
        return float(soundfile.info(io.BytesIO(data)).duration)
    # libsndfile does not read FLAC files without a length.
    return float(miniaudio.decode(data, nchannels=1, sample_rate=16_000).num_frames / 16_000)


@pytest.mark.parametrize(
    ("kind", "media_type"),
    [("mp3", "audio/mpeg"), ("opus", "audio/ogg"), ("flac", "audio/flac"), ("wav", "audio/wav")],
)
def test_file_has_the_audio_of_the_samples(sdk: openai.OpenAI, kind: Any, media_type: str) -> None:
    answer = sdk.audio.speech.create(
        model=VOICED, voice="ada", input=TEXT, response_format=kind, extra_body=SEED
    )
    assert answer.response.headers["content-type"] == media_type
    assert seconds_of(kind, answer.content) == pytest.approx(len(spoken(sdk)) / 2 / 24_000, abs=0.15)


def test_events_carry_the_file_and_usage(server: HostedServer, sdk: openai.OpenAI) -> None:
    body = {"model": VOICED, "voice": "ada", "input": TEXT, "response_format": "pcm"} | SEED
    with sdk.audio.speech.with_streaming_response.create(
        model=VOICED,
        voice="ada",
        input=TEXT,
        response_format="pcm",
        stream_format="sse",
        extra_body=SEED,
    ) as answer:
        lines = [line for line in answer.iter_lines() if line.startswith("data: ")]
    *deltas, done = (msgspec.json.decode(line.removeprefix("data: ")) for line in lines)
    assert {event["type"] for event in deltas} == {"speech.audio.delta"}
    assert b"".join(b64decode(event["audio"]) for event in deltas) == spoken(sdk)
    usage = done["usage"]
    assert done["type"] == "speech.audio.done"
    assert usage["input_tokens"] + usage["output_tokens"] == usage["total_tokens"]
    assert min(usage["input_tokens"], usage["output_tokens"]) > 0
    answered = httpx.post(f"{server.url}{SPEECH}", json=body | {"stream_format": "sse"}, timeout=60)
    check_stream(answered.text, SPEECH)


@pytest.mark.parametrize("kind", ["wav", "mp3"])
def test_spoken_words_are_heard(sdk: openai.OpenAI, kind: Any) -> None:
    said = sdk.audio.speech.create(
        model=SPEAKER, voice="alloy", input="Our garden is green.", response_format=kind
    )
    heard = sdk.audio.transcriptions.create(model=LISTENER, file=(f"said.{kind}", said.content))
    assert heard.text == "our garden is green"


def test_spoken_digits_are_heard(sdk: openai.OpenAI) -> None:
    heard = []
    for digit in DIGITS:
        said = spoken(sdk, model=SPEAKER, voice="alloy", input=f"{digit}.", response_format="wav")
        # Whisper's windows seldom begin with a word.
        audio = wav(bytes(SPEAKER_RATE // 2) + said[_WAV_HEADER_BYTES:], rate=SPEAKER_RATE)
        heard.append(sdk.audio.transcriptions.create(model=LISTENER, file=(f"{digit}.wav", audio)).text)
    assert heard == list(DIGITS)


def test_home_assistant_gets_its_file(sdk: openai.OpenAI) -> None:
    with sdk.audio.speech.with_streaming_response.create(
        model=PLAIN,
        voice="marin",
        input="Dinner is ready.",
        instructions="None",
        speed=1.0,
        response_format="mp3",
    ) as answer:
        data = b"".join(answer.iter_bytes())
    assert soundfile.info(io.BytesIO(data)).format == "MP3"


def test_open_webui_gets_voices_and_a_media_type(server: HostedServer) -> None:
    listed = httpx.get(f"{server.url}/v1/audio/voices", timeout=60).json()
    check_answer(listed, "get", "/v1/audio/voices")
    assert {"ada", "bob", "default"} <= {voice["id"] for voice in listed["voices"]}
    one = httpx.get(f"{server.url}/v1/audio/voices", params={"model": VOICED}, timeout=60).json()
    assert [voice["name"] for voice in one["voices"]] == ["ada", "bob"]
    body = {"model": VOICED, "voice": "bob", "input": "Hello."}
    answer = httpx.post(f"{server.url}/audio/speech", json=body, timeout=60)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "audio/mpeg")


def test_openai_voices_are_voices_of_the_model(sdk: openai.OpenAI) -> None:
    ada, bob = spoken(sdk, voice="ada"), spoken(sdk, voice={"id": "bob"})
    assert ada != bob
    assert (spoken(sdk, voice="alloy"), spoken(sdk, voice="ash")) == (ada, bob)


def test_voice_of_a_recording_is_cloned(sdk: openai.OpenAI) -> None:
    recording = b64encode(speech_audio("Hello.")).decode()
    fields = {"ref_audio": recording, "ref_text": "Hello."}
    assert spoken(sdk, extra_body=fields) not in (spoken(sdk), b"")


@pytest.mark.parametrize("text", ["Hi 👋🏽!", "שלום עולם", "a\u202eb\x00\x07c", "..."])
def test_any_characters_are_spoken(sdk: openai.OpenAI, text: str) -> None:
    assert spoken(sdk, input=text)


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({"input": " "}, "input", "no text to speak"),
        ({"input": "x" * 4097}, "input", "length <= 4096"),
        ({"voice": "carl"}, "voice", "its voices are ada, bob"),
        ({"voice": "carl", "model": PLAIN}, "voice", "leave voice out"),
        ({"response_format": "aac"}, "response_format", "use one of: 'flac', 'mp3'"),
        ({"speed": 4.5}, "speed", "<= 4.0"),
        ({"speed": 2}, "speed", "leave speed out"),
        ({"instructions": "Whisper."}, "instructions", "leave them out"),
        ({"model": "endless"}, "model", "generates text and makes no audio"),
        ({"extra_body": {"language": "english"}}, "language", "leave language out"),
        ({"extra_body": {"ref_audio": "YWFh", "ref_text": "a"}}, "ref_audio", "ref_audio is no supported"),
        (
            {"extra_body": {"ref_audio": b64encode(silence(61)).decode(), "ref_text": "a"}},
            "ref_audio",
            "send at most 60",
        ),
        (
            {
                "model": PLAIN,
                "voice": "alloy",
                "extra_body": {"ref_audio": b64encode(silence(1)).decode(), "ref_text": "a"},
            },
            "ref_audio",
            "cannot clone",
        ),
    ],
)
def test_bad_fields_are_refused_by_name(
    sdk: openai.OpenAI, fields: dict[str, Any], param: str, message: str
) -> None:
    with pytest.raises(openai.BadRequestError, match=message) as raised:
        spoken(sdk, **fields)
    assert raised.value.param == param


def test_speech_model_refuses_chat_and_unknown_names_are_not_found(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="send text to /v1/audio/speech"):
        sdk.chat.completions.create(model=VOICED, messages=[{"role": "user", "content": "Hello!"}])
    with pytest.raises(openai.NotFoundError):
        spoken(sdk, model="missing")


def test_leaving_after_the_first_audio_frees_the_model_and_disturbs_no_chat(
    server: HostedServer, sdk: openai.OpenAI
) -> None:
    with sdk.audio.speech.with_streaming_response.create(
        model=PLAIN, voice="alloy", input=LONG, response_format="wav"
    ) as answer:
        parts = answer.iter_bytes()
        assert next(parts).startswith(b"RIFF")
        assert open_requests(server, PLAIN)
        chat = sdk.chat.completions.create(
            model="endless", messages=[{"role": "user", "content": "Hello!"}], max_tokens=6
        )
    assert chat.usage is not None
    assert chat.usage.completion_tokens == 6
    wait_for(lambda: not open_requests(server, PLAIN), seconds=30)
    freed = httpx.post(f"{server.url}/models/unload", json={"model": PLAIN}, timeout=60)
    assert freed.status_code == 200


def test_speech_model_is_no_chat_model_of_lm_studio(server: HostedServer) -> None:
    for path, key in (("/api/v0/models", "data"), ("/api/v1/models", "models")):
        listed = httpx.get(f"{server.url}{path}", timeout=60).json()[key]
        assert [model.get("id") or model["key"] for model in listed] == ["endless"]
    assert httpx.get(f"{server.url}/api/v0/models/{PLAIN}", timeout=60).status_code == 404


def test_cancelled_speech_ends_its_stream_with_an_error(
    server: HostedServer, caplog: pytest.LogCaptureFixture
) -> None:
    body = {"model": PLAIN, "input": LONG, "response_format": "wav"}
    with httpx.stream(
        "POST", f"{server.url}{SPEECH}", json=body | {"stream_format": "sse"}, timeout=60
    ) as answer:
        lines = answer.iter_lines()
        next(lines)
        cancel(server)
        assert "request_cancelled" in [line for line in lines if line][-1]
    with httpx.stream("POST", f"{server.url}{SPEECH}", json=body, timeout=60) as answer:
        parts = answer.iter_bytes()
        next(parts)
        cancel(server)
        with pytest.raises(httpx.RemoteProtocolError):
            list(parts)
    assert caplog.text.count("a stream ended early: ") == 2
    assert "Traceback" not in caplog.text


@pytest.fixture(scope="module")
def volley(server: HostedServer) -> Iterator[Volley]:
    sending = Volley(server.url)
    yield sending
    sending.close()


def chat(server: HostedServer) -> str:
    body = {"model": "endless", "messages": [{"role": "user", "content": "Hi."}], "max_tokens": 24}
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=body | {"temperature": 0}, timeout=60)
    return str(answer.json()["choices"][0]["message"])


@settings(max_examples=5, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(batch=st.lists(requests({SPEECH: SPEECH_BODIES}), min_size=AT_ONCE, max_size=AT_ONCE))
def test_fuzzed_requests_are_spoken_or_refused_and_leave_chats_and_rows_alone(
    server: HostedServer, volley: Volley, batch: list[FuzzedRequest]
) -> None:
    alone = chat(server)
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(chat, server)
        volley.send(batch)
    assert beside.result() == alone
    assert not any(volley.leftovers().values())


def cancel(server: HostedServer) -> None:
    (number,) = open_requests(server, PLAIN)
    httpx.delete(f"{server.url}/requests/{number}").raise_for_status()


def test_model_list_and_metrics_describe_the_speech_model(server: HostedServer, sdk: openai.OpenAI) -> None:
    spoken(sdk)
    listed = httpx.get(f"{server.url}/v1/models", timeout=60).json()
    check_answer(listed, "get", "/v1/models")
    speech = {model["id"]: model["speech"] for model in listed["data"]}
    assert (speech["endless"], speech[VOICED]["voices"], speech[PLAIN]["voices"]) == (
        None,
        ["ada", "bob"],
        [],
    )
    assert speech[PLAIN]["sample_rate"] == 32_000
    shown = httpx.get(f"{server.url}/metrics", timeout=60).text
    for name in ("characters_total", "audio_seconds_total", "first_audio_seconds_count"):
        assert re.search(rf'^mlxctl_speech_{name}{{model="{VOICED}"}} [\d.]*[1-9]', shown, re.MULTILINE)
