"""`mlxctl speak`: files, pipes, and a player."""

import shutil
import wave
from collections.abc import Iterator
from pathlib import Path

import pytest
import soundfile
from click.testing import CliRunner, Result

from mlxctl.cli import app
from tests import tiny_models
from tests.server.hosted import HostedServer, hosting

TEXT = "Hello world. The quick brown fox jumps over the lazy dog."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostedServer]:
    model = tmp_path_factory.mktemp("models") / "voice"
    shutil.copytree(tiny_models.speech("pocket_tts"), model)
    with hosting(None, "--model", str(model), "--model", str(tiny_models.model("endless"))) as running:
        yield running


def speak(*arguments: str, piped: str | None = None) -> Result:
    return CliRunner().invoke(app, ["speak", *arguments], input=piped)


@pytest.mark.parametrize("name", ["a.mp3", "a.flac", "a.ogg", "a.OPUS"])
def test_the_suffix_chooses_the_format(server: HostedServer, tmp_path: Path, name: str) -> None:
    done = speak(TEXT, "--url", server.url, "-o", str(tmp_path / name))
    assert done.exit_code == 0, done.output
    seconds = float(done.stderr.split(" s of audio")[0].split()[-1])
    assert soundfile.info(tmp_path / name).duration == pytest.approx(seconds, abs=0.1)
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_piped_text_becomes_a_wav_file_with_its_length(server: HostedServer, tmp_path: Path) -> None:
    done = speak("--url", server.url, "--voice", "bob", "-o", str(tmp_path / "a.wav"), piped=TEXT)
    assert (done.exit_code, done.stdout) == (0, "")
    with wave.open(str(tmp_path / "a.wav")) as file:
        assert len(file.readframes(file.getnframes())) == 2 * file.getnframes() > 0


def test_text_is_played(server: HostedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "aplay").write_text(f"#!/bin/sh\n/bin/cat > {tmp_path}/heard\n")
    (tmp_path / "aplay").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert speak(TEXT, "--url", server.url).exit_code == 0
    assert (tmp_path / "heard").stat().st_size > 0
    monkeypatch.setenv("PATH", "")
    none = speak(TEXT, "--url", server.url)
    assert (none.exit_code, "no program on PATH plays audio" in none.stderr) == (1, True)


def test_voices_are_listed(server: HostedServer) -> None:
    assert speak("--list-voices", "--url", server.url).stdout.split() == ["ada", "bob"]


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["--voice", "carl"], 1, "its voices are ada, bob"),
        (["--speed", "2"], 1, "leave speed out"),
        (["--speed", "9"], 2, "--speed"),
        (["-o", "a.txt"], 2, "must end in one of .mp3"),
        (["--local"], 2, "exclude each other"),
        (["--model", "missing"], 1, "missing"),
    ],
)
def test_mistakes_leave_no_file(
    server: HostedServer, tmp_path: Path, arguments: list[str], exit_code: int, message: str
) -> None:
    done = speak(TEXT, "--url", server.url, "-o", str(tmp_path / "a.wav"), *arguments)
    assert (done.exit_code, message in done.stderr) == (exit_code, True), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_a_speech_model_the_fix_is_named(
    server: HostedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLXCTL_SERVER_PORT", "1")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    done = speak(TEXT, "-o", str(tmp_path / "a.wav"))
    assert (done.exit_code, "name a model with --model" in done.stderr) == (1, True)
    assert speak("-o", str(tmp_path / "a.wav"), piped=" ").exit_code == 2
