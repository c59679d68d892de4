"""`mlxctl transcribe` and `mlxctl bench transcription`, with a running server and without."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mlxctl.cli import app
from mlxctl.probe.questions import SPOKEN_SENTENCES
from tests import tiny_models
from tests.server.hosted import HostedServer, hosting
from tests.tiny_models.audio_samples import speech_audio
from tests.tiny_models.whisper_words import WINDOW_SECONDS

MODEL = str(tiny_models.trained("whisper_words"))
TEXT = "please open the window my brother likes music"


@pytest.fixture(scope="module")
def speech_server() -> Iterator[HostedServer]:
    with hosting(None, "--model", MODEL) as running:
        yield running


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    file = tmp_path / "talk.wav"
    file.write_bytes(speech_audio(*SPOKEN_SENTENCES[:2], every_seconds=WINDOW_SECONDS))
    return file


def transcribe(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["transcribe", *arguments], input=stdin)


def test_text_of_a_file_and_of_standard_input(speech_server: HostedServer, talk: Path) -> None:
    by_name = transcribe(str(talk), "--url", speech_server.url)
    assert (by_name.exit_code, by_name.stdout) == (0, f"{TEXT}\n")
    piped = transcribe("-", "--url", speech_server.url, "--language", "en", stdin=talk.read_bytes())
    assert piped.stdout == by_name.stdout


def test_files_of_every_format_are_written(speech_server: HostedServer, talk: Path, tmp_path: Path) -> None:
    for name in ("text", "srt", "vtt", "json"):
        done = transcribe(
            str(talk), "--url", speech_server.url, "--format", name, "-o", str(tmp_path / "out")
        )
        assert (done.exit_code, done.stdout) == (0, "")
    written = {file.suffix: file.read_text() for file in (tmp_path / "out").iterdir()}
    assert written[".txt"] == f"{TEXT}\n"
    assert written[".srt"].startswith("1\n00:00:00,")
    assert written[".vtt"].startswith("WEBVTT\n\n00:00:00.")
    transcript = json.loads(written[".json"])
    assert (transcript["text"], transcript["language"], len(transcript["segments"])) == (TEXT, "en", 2)


def test_a_broken_file_does_not_stop_the_others(speech_server: HostedServer, talk: Path) -> None:
    broken = talk.with_name("broken.mp3")
    broken.write_bytes(b"no sound")
    done = transcribe(str(broken), "nothing.wav", str(talk), "--url", speech_server.url)
    assert (done.exit_code, done.stdout) == (1, f"{TEXT}\n")
    assert "broken.mp3: file is no supported audio file; send WAV, FLAC, MP3 or Ogg" in done.stderr
    assert "nothing.wav: No such file or directory" in done.stderr


def test_wrong_calls_name_the_fix(speech_server: HostedServer, talk: Path) -> None:
    subtitles = transcribe(str(talk), str(talk), "--format", "srt", "--url", speech_server.url)
    assert (subtitles.exit_code, "needs -o DIRECTORY" in subtitles.stderr) == (2, True)
    same = transcribe(str(talk), "talk.mp3", "-o", str(talk.parent), "--url", speech_server.url)
    assert (same.exit_code, "files of different names" in same.stderr) == (2, True)
    nameless = transcribe(str(talk), "--local")
    assert (nameless.exit_code, "name a model, such as --model whisper:turbo" in nameless.stderr) == (2, True)
    unknown = transcribe(str(talk), "--url", speech_server.url, "--language", "xx")
    assert (unknown.exit_code, "it supports en" in unknown.stderr) == (1, True)


def test_a_model_is_loaded_without_a_server(talk: Path) -> None:
    done = transcribe(str(talk), "--local", "--model", MODEL, "--quiet")
    assert (done.exit_code, done.stdout) == (0, f"{TEXT}\n")


def test_bench_measures_files(speech_server: HostedServer, talk: Path, tmp_path: Path) -> None:
    arguments = ["--url", speech_server.url, "--rounds", "1", "--warmups", "0"]
    done = CliRunner().invoke(
        app,
        [
            "bench",
            "transcription",
            "--file",
            str(talk),
            *arguments,
            "--json",
            "--out",
            str(tmp_path / "it.json"),
        ],
    )
    assert done.exit_code == 0, done.stderr
    found = {each["name"]: each["median"] for each in json.loads(done.stdout)["measurements"]}
    assert found.keys() == {"request", "speed", "first_text"}
    assert found["first_text"] > 0
    assert found["speed"] == pytest.approx(4 / found["request"], rel=0.05)
