"""One transcription in progress: its audio, windows and segments. Event-loop thread only."""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from mlxctl.engine import AudioWindow, TranscribedWindow
from mlxctl.inference.request_entry import RequestEntry
from mlxctl.inference.session import ModelSession
from mlxctl.inference.transcription.guarded_segments import GuardedSegments
from mlxctl.inference.transcription.speakers import Speakers
from mlxctl.inference.transcription.words import alignable_words, assign_words
from mlxctl.ir import SpeechSegment, TimedWord, TranscriptionRecipe, TranscriptionRequest
from mlxctl.ir.transcription import SAMPLE_RATE


@dataclass(slots=True, kw_only=True)
class TranscriptionWork:
    """What the transcription of a file needs and has found.

    `language` is the code of a known one. The words of each window are timed by the `aligner`, and its
    segments divided by `speakers`, where there are any. `answer_ids` gets the tokens of the text, or for a
    model that returns text the indices of `texts`. `segments` are what may be sent, which `on_segments` gets,
    too.
    """

    request: TranscriptionRequest
    recipe: TranscriptionRecipe
    session: ModelSession
    entry: RequestEntry
    guarded: GuardedSegments
    on_segments: Callable[[Sequence[SpeechSegment]], None]
    request_id: str
    language: str | None
    aligner: ModelSession | None = None
    speakers: Speakers | None = None
    prompt_ids: list[int] = field(default_factory=list)
    answer_ids: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    segments: list[SpeechSegment] = field(default_factory=list)

    def next_part(self, position: int) -> tuple[int, int] | None:
        """Return the part that may hold speech from a sample on.

        None at the end.
        """
        parts = self.request.speech
        if parts is None:
            parts = [(0, self.request.num_samples)]
        index = bisect_right(parts, position, key=lambda part: part[1])
        return parts[index] if index < len(parts) else None

    async def read(self, start: int, num_samples: int) -> bytes:
        """Return samples of the file; decoding them blocks a worker thread."""
        return await asyncio.to_thread(self.request.read_window, start, num_samples)

    async def run(self, window: AudioWindow) -> TranscribedWindow:
        """Transcribe one window."""
        result = await self.session.transcribe(window, request_id=self.request_id)
        self.entry.generated(max(1, len(result.token_ids)))
        return result

    async def add(
        self,
        segments: Sequence[SpeechSegment],
        answer_ids: Sequence[int],
        *,
        samples: bytes,
        seek: int,
        language: str | None,
    ) -> None:
        """Add the segments of a window that begins at `seek`.

        Their words are added if they are wanted.
        """
        self.answer_ids += answer_ids
        if self.aligner is not None and segments:
            segments = await self._aligned(segments, samples, seek, language)
        if self.speakers is not None and segments:
            await self.speakers.read(samples, seek)
            segments = [part for segment in segments for part in self.speakers.divide(segment)]
        self._deliver(self.guarded.take(segments))

    def text_bytes(self, index: int) -> bytes:
        """Return one of the `texts`, where they stand for tokens."""
        return self.texts[index].encode()

    def finish(self) -> None:
        """Deliver the segments that were held back."""
        self._deliver(self.guarded.finish())

    async def _aligned(
        self, segments: Sequence[SpeechSegment], samples: bytes, seek: int, language: str | None
    ) -> Sequence[SpeechSegment]:
        """Return the segments with the words that the aligner has timed."""
        assert self.aligner is not None
        texts = [alignable_words(segment.text) for segment in segments]
        words = [word for text in texts for word in text]
        if not words:
            return segments
        window = AudioWindow(model=self.aligner.name, samples=samples, words=words, language=language)
        found = await self.aligner.transcribe(window, request_id=self.request_id)
        offset = seek / SAMPLE_RATE
        timed = [
            TimedWord(text=word.text, start=word.start + offset, end=word.end + offset)
            for word in found.words
        ]
        return [replace(segment, words=words) for segment, words in assign_words(segments, texts, timed)]

    def _deliver(self, segments: Sequence[SpeechSegment]) -> None:
        self.segments += segments
        if segments:
            self.on_segments(segments)
