"""Transcription requests, results and recipes. Pure values.

Audio is always mono, SAMPLE_RATE signed 16-bit samples a second, in the machine's byte order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

SAMPLE_RATE = 16_000
SAMPLE_BYTES = 2
STEP_SAMPLES = 320
"""What one step of a model's times stands for: 0.02 seconds."""

# Those of previous text, start, language and task.
_NUM_MARKS = 4

SpeechTask = Literal["transcribe", "translate"]
TranscriptionPurpose = Literal["transcription", "alignment", "diarization"]
"""What a model finds in audio: its text, the times of the words of a known text, or who speaks when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhisperTokens:
    """Special tokens of a Whisper model.

    `languages` are ids by code, empty for a model with one language, which gets no language token;
    `first_time` is the id of the time 0.00, each later id is a step later. `suppressed` ids are never
    generated, `suppressed_first` not at the start. `no_speech` is the token of a window without speech, None
    where there is none. `alignment_heads` are layers and heads that follow the audio best, empty if unknown.
    """

    context_length: int
    start: int
    end: int
    previous: int
    no_times: int
    first_time: int
    transcribe: int
    translate: int
    no_speech: int | None
    languages: dict[str, int]
    suppressed: tuple[int, ...]
    suppressed_first: tuple[int, ...]
    alignment_heads: tuple[tuple[int, int], ...] = ()

    @property
    def max_tokens(self) -> int:
        """Most tokens of the text of a window."""
        return self.context_length // 2

    def start_of_transcript(self, language_id: int | None, task: SpeechTask) -> list[int]:
        """Return the start, language and task tokens.

        A model with one language has only the first.
        """
        task_id = self.translate if task == "translate" else self.transcribe
        return [self.start, *([] if language_id is None else [language_id, task_id])]

    def latest(self, token_ids: Sequence[int]) -> list[int]:
        """Return the end of a previous text that has room."""
        room = max(0, self.context_length - self.max_tokens - _NUM_MARKS)
        return list(token_ids[max(0, len(token_ids) - room) :])


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptionRecipe:
    """How a model transcribes, and what a request may ask.

    `family` names the code that runs it. `window_samples` is the longest audio that it takes at once;
    `context_length` is in tokens, 0 for a model without one. `languages` are the codes that a request may
    name, None for a model that detects the language and takes no language token. `whisper` has the tokens of
    a Whisper model.
    """

    family: str
    window_samples: int
    purpose: TranscriptionPurpose = "transcription"
    context_length: int = 0
    languages: tuple[str, ...] | None = None
    has_word_times: bool = False
    takes_prompt: bool = False
    takes_temperature: bool = False
    translates: bool = False
    whisper: WhisperTokens | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSpeaker:
    """A speaker's name, with samples of the voice."""

    name: str
    samples: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptionRequest:
    """An audio file to transcribe.

    `read_window(start, num_samples)` returns samples, later ones each time, and blocks; `encoded` is the file
    as it is sent to another server, where it is known. `speech` are first and last samples of the parts that
    may hold speech; None is the whole file. `language` is a code, None to detect it, if possible among
    `languages`. `prompt` is text that came before, `keywords` are words that may be heard. Without a
    `temperature` above 0, failed windows are decoded again at higher ones. With `word_times` the segments
    have words. If it is `diarized`, too, they have speakers, `known_speakers` under their names.
    """

    model: str
    num_samples: int
    read_window: Callable[[int, int], bytes]
    encoded: bytes | None = None
    speech: Sequence[tuple[int, int]] | None = None
    task: SpeechTask = "transcribe"
    language: str | None = None
    languages: tuple[str, ...] = ()
    prompt: str = ""
    keywords: tuple[str, ...] = ()
    temperature: float = 0.0
    word_times: bool = False
    diarized: bool = False
    known_speakers: tuple[KnownSpeaker, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedWord:
    """A word, with the space before it, and its times in seconds."""

    text: str
    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakerTurn:
    """From when to when a speaker speaks, in seconds; turns may overlap.

    `speaker` is an output of the diarization model, counted from 0.
    """

    speaker: int
    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechSegment:
    """The text from `start` to `end`, in seconds.

    The figures are those of its window, which begins at sample `seek`; they are 0 for models that have none.
    `words` are there if the request asked for them, `speaker` if it was to be diarized.
    """

    start: float
    end: float
    text: str
    token_ids: tuple[int, ...] = ()
    seek: int = 0
    temperature: float = 0.0
    mean_logprob: float = 0.0
    compression_ratio: float = 0.0
    no_speech: float = 0.0
    words: tuple[TimedWord, ...] = ()
    speaker: str | None = None


SegmentObserver = Callable[[Sequence[SpeechSegment], float], None]
"""Gets segments in order, as they are found, and the duration of the whole file in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptionResult:
    """The transcription of a whole file.

    `language` is a code, None for a model with one language that does not name it.
    """

    language: str | None
    duration_seconds: float
    segments: tuple[SpeechSegment, ...]

    @property
    def text(self) -> str:
        """The segments as one text."""
        return "".join(segment.text for segment in self.segments).strip()
