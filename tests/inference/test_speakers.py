"""Speakers of a file, by a scripted diarization model."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from mlxctl.engine import AudioWindow, TranscribedWindow
from mlxctl.inference.transcription.speakers import Speakers
from mlxctl.ir import KnownSpeaker, SpeakerTurn, SpeechSegment, TimedWord
from mlxctl.ir.errors import InvalidRequest
from mlxctl.library import read_model
from tests.tiny_models.transcription_models import transcription_model

RATE = 16_000
FACTS = read_model(transcription_model("sortformer"))


class ScriptedDiarizer:
    """Answers windows with turns, and the number of windows as state."""

    name = "speakers"
    reader = SimpleNamespace(facts=FACTS)

    def __init__(self, *turns: list[SpeakerTurn]) -> None:
        self.turns = list(turns)
        self.windows: list[AudioWindow] = []

    async def transcribe(self, window: AudioWindow, *, request_id: str) -> TranscribedWindow:
        self.windows.append(window)
        return TranscribedWindow(
            turns=self.turns.pop(0) if self.turns else [], state=bytes([len(self.windows)])
        )


def speakers_of(diarizer: Any) -> Speakers:
    return Speakers(diarizer, "request")


def turn(speaker: int, start: float, end: float) -> SpeakerTurn:
    return SpeakerTurn(speaker=speaker, start=start, end=end)


def test_each_second_is_heard_once_in_equal_windows_with_the_state_before() -> None:
    diarizer = ScriptedDiarizer()
    speakers = speakers_of(diarizer)

    async def listen() -> None:
        await speakers.read(bytes(2 * 30 * RATE), 0)
        # Whisper's next window begins before the end of the last one.
        await speakers.read(bytes(2 * 30 * RATE), 29 * RATE)

    asyncio.run(listen())
    seconds = [len(window.samples) / 2 / RATE for window in diarizer.windows]
    assert sum(seconds) == pytest.approx(59)
    assert min(seconds) > 4
    assert [window.state for window in diarizer.windows] == [b"", *(bytes([n]) for n in range(1, 13))]


def test_words_belong_to_who_speaks_longest_or_is_nearest() -> None:
    diarizer = ScriptedDiarizer([turn(2, 0, 1.4), turn(0, 1.2, 3)])
    speakers = speakers_of(diarizer)
    asyncio.run(speakers.read(bytes(2 * 4 * RATE), 10 * RATE))
    words = [("One", 10.1, 10.9), (" two", 11, 11.35), (" three", 11.3, 12), (" four", 13.5, 13.9)]
    timed = tuple(TimedWord(text=text, start=start, end=end) for text, start, end in words)
    segment = SpeechSegment(start=10, end=14, text="One two three four", words=timed)
    parts = [(part.speaker, part.text, part.start, part.end) for part in speakers.divide(segment)]
    assert parts == [("A", "One two", 10.1, 11.35), ("B", " three four", 11.3, 13.9)]
    (without_words,) = speakers.divide(SpeechSegment(start=12, end=12.5, text="…"))
    assert without_words.speaker == "B"


def test_known_speakers_keep_their_names_and_two_of_one_voice_are_refused() -> None:
    diarizer = ScriptedDiarizer([turn(1, 0, 2), turn(0, 0, 1)], [turn(1, 0, 2)])
    speakers = speakers_of(diarizer)
    known = [KnownSpeaker(name=name, samples=bytes(2 * 2 * RATE)) for name in ("Ada", "Bob", "Cy")]
    with pytest.raises(InvalidRequest, match="sample of 'Bob' sounds like 'Ada'"):
        asyncio.run(speakers.enroll(known[:2]))
    with pytest.raises(InvalidRequest, match="sample of 'Cy' has no speech") as raised:
        asyncio.run(speakers.enroll(known[2:]))
    assert raised.value.param == "known_speaker_references"
