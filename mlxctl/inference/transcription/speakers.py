"""Speaker diarization of one file. Event-loop thread only."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from mlxctl.engine import AudioWindow
from mlxctl.inference.session import ModelSession
from mlxctl.ir import KnownSpeaker, SpeakerTurn, SpeechSegment
from mlxctl.ir.errors import InvalidRequest
from mlxctl.ir.transcription import SAMPLE_BYTES, SAMPLE_RATE

# A multiple of the step of every diarization model: 80 ms.
_STEP_SAMPLES = 1280
_REFERENCES = "known_speaker_references"


class Speakers:
    """Speaker labels of a transcript, by a diarization model.

    The model reads the audio once, in order.
    Enrolled speakers have their names; others are A, B and so on, as they come.
    """

    def __init__(self, session: ModelSession, request_id: str) -> None:
        recipe = session.reader.facts.transcription
        assert recipe is not None, "only diarization models are used here"
        self._session, self._request_id = session, request_id
        self._window_samples = recipe.window_samples
        self._state = b""
        self._position = 0
        self._turns: list[SpeakerTurn] = []
        self._names: dict[int, str] = {}
        self._num_letters = 0

    async def enroll(self, known: Iterable[KnownSpeaker]) -> None:
        """Put samples of known speakers into the model's cache, before the file.

        Raises InvalidRequest for one whose voice is not found, or is taken for another's.
        """
        for speaker in known:
            turns = await self._run(speaker.samples)
            seconds: dict[int, float] = {}
            for turn in turns:
                seconds[turn.speaker] = seconds.get(turn.speaker, 0.0) + turn.end - turn.start
            found = max(seconds, key=lambda each: seconds[each], default=None)
            if found is None or found in self._names:
                what = "has no speech" if found is None else f"sounds like {self._names[found]!r}"
                message = f"{_REFERENCES}: the sample of {speaker.name!r} {what}; send another sample"
                raise InvalidRequest(message, param=_REFERENCES)
            self._names[found] = speaker.name

    async def read(self, samples: bytes, seek: int) -> None:
        """Find the turns of a window that begins at sample `seek`.

        What an earlier window had is not read again. Turns before the window are forgotten, except the last.
        """
        start = max(self._position, seek)
        turns = await self._run(samples[(start - seek) * SAMPLE_BYTES :])
        offset = start / SAMPLE_RATE
        turns = [replace(turn, start=turn.start + offset, end=turn.end + offset) for turn in turns]
        turns = sorted([*self._turns, *turns], key=lambda turn: turn.end)
        self._turns = [turn for turn in turns if turn.end > seek / SAMPLE_RATE] or turns[-1:]
        self._position = max(start, seek + len(samples) // SAMPLE_BYTES)

    def divide(self, segment: SpeechSegment) -> Iterator[SpeechSegment]:
        """Yield the parts of a segment, each with its speaker.

        A segment without words is one part.
        """
        if not segment.words:
            yield replace(segment, speaker=self._name(self._speaker(segment.start, segment.end)))
            return
        for speaker, group in groupby(segment.words, lambda word: self._speaker(word.start, word.end)):
            words = tuple(group)
            yield replace(
                segment,
                start=words[0].start,
                end=max(word.end for word in words),
                text="".join(word.text for word in words),
                token_ids=(),
                words=words,
                speaker=self._name(speaker),
            )

    async def _run(self, samples: bytes) -> list[SpeakerTurn]:
        """Return the turns of samples, in windows of about equal length."""
        num_samples = len(samples) // SAMPLE_BYTES
        num_windows = math.ceil(num_samples / self._window_samples)
        length = math.ceil(num_samples / max(1, num_windows) / _STEP_SAMPLES) * _STEP_SAMPLES
        turns: list[SpeakerTurn] = []
        for start in range(0, num_samples, max(1, length)):
            part = samples[start * SAMPLE_BYTES : (start + length) * SAMPLE_BYTES]
            window = AudioWindow(model=self._session.name, samples=part, state=self._state)
            found = await self._session.transcribe(window, request_id=self._request_id)
            self._state = found.state
            offset = start / SAMPLE_RATE
            turns += (replace(turn, start=turn.start + offset, end=turn.end + offset) for turn in found.turns)
        return turns

    def _speaker(self, start: float, end: float) -> int:
        """Return who speaks longest in a time, or is nearest to it."""
        nearest = max(self._turns, key=lambda turn: min(turn.end, end) - max(turn.start, start), default=None)
        return 0 if nearest is None else nearest.speaker

    def _name(self, speaker: int) -> str:
        if speaker not in self._names:
            self._names[speaker] = chr(ord("A") + self._num_letters)
            self._num_letters += 1
        return self._names[speaker]
