"""/speak: an answer as words, played by a program of the machine."""

import io
import wave
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxctl.chat.conversation import ChatMessage, Conversation
from mlxctl.chat.speech_text import MAX_PART_CHARS, readable, split_text
from mlxctl.ir import SpeechChunk, text_message

from .headless_chat import HeadlessChat
from .scripted_backend import ScriptedBackend

RATE = 24_000
SAMPLES = np.linspace(-0.5, 0.5, 480, dtype="<f4")
CHUNKS = (
    SpeechChunk(samples=SAMPLES.tobytes(), sample_rate=RATE),
    SpeechChunk(samples=b"", sample_rate=RATE, is_last=True),
)
ANSWER = "# News\n\nIt is **late**, see [this](http://a/b):\n\n```sh\nrm -r x\n```\n\n- `one`\n- two"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory on PATH; empty."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    return directory


def install(programs: Path, name: str, script: str) -> None:
    (programs / name).write_text(f"#!/bin/sh\n{script}\n")
    (programs / name).chmod(0o755)


def chat_with(*chunks: SpeechChunk) -> HeadlessChat:
    backend = ScriptedBackend()
    backend.spoken_chunks = chunks
    messages = [text_message("user", "News?"), text_message("assistant", ANSWER)]
    return HeadlessChat(
        backend, conversation=Conversation([ChatMessage(message=message) for message in messages])
    )


@pytest.mark.parametrize("player", ["paplay", "aplay"])
def test_the_last_answer_is_piped_to_the_player_as_it_comes(programs: Path, player: str) -> None:
    install(programs, player, f'echo "$@" > {programs}/options; /bin/cat > {programs}/heard')
    chat = chat_with(*CHUNKS)
    assert chat.send("/speak") == []
    assert [request.text for request in chat.backend.spoken] == ["News\nIt is late, see this:\none\ntwo"]
    heard = np.frombuffer((programs / "heard").read_bytes(), "<i2") / 32767
    assert heard == pytest.approx(SAMPLES, abs=1e-4)
    assert str(RATE) in (programs / "options").read_text()


def test_afplay_gets_a_whole_file(programs: Path) -> None:
    install(programs, "afplay", f'/bin/cat "$1" > {programs}/heard')
    assert chat_with(*CHUNKS, *CHUNKS).send("/speak") == []
    with wave.open(io.BytesIO((programs / "heard").read_bytes())) as file:
        assert (file.getframerate(), file.getnframes()) == (RATE, 2 * len(SAMPLES))


def test_what_is_missing_is_named(programs: Path) -> None:
    (no_player,) = chat_with(*CHUNKS).send("/speak")
    assert "no program on PATH plays audio (of afplay, paplay, aplay)" in no_player
    install(programs, "aplay", "/bin/cat > /dev/null; exit 3")
    (failed,) = chat_with(*CHUNKS).send("/speak")
    assert "could not play the audio (status 3)" in failed
    (no_model,) = chat_with().send("/speak")
    assert "needs a server with a speech model" in no_model
    assert HeadlessChat().send("/speak") == ["There is no answer to read."]


def test_words_of_an_answer_have_no_marks_and_no_code() -> None:
    assert readable(ANSWER) == "News\nIt is late, see this:\none\ntwo"


@settings(max_examples=25)
@given(st.lists(st.sampled_from(["word", "end.", "a\n\n", "x" * 700, "？"]), max_size=60))
def test_long_texts_are_cut_between_words(words: list[str]) -> None:
    text = " ".join(words * 3)
    parts = split_text(text)
    assert all(0 < len(part) <= MAX_PART_CHARS for part in parts)
    assert " ".join(parts).split() == text.split()
