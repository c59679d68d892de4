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


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptionRecipe:
    """Window size and special tokens of a Whisper model.

    `languages` are ids by code, empty for a model with one language, which gets no language token;
    `first_time` is the id of the time 0.00, each later id is a step later. `suppressed` ids are never
    generated, `suppressed_first` not at the start. `no_speech` is the token of a window without speech, None
    where there is none.
    """

    window_samples: int
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

    @property
    def max_tokens(self) -> int:
        """Most tokens of the text of a window."""
        return self.context_length // 2

    def latest(self, token_ids: Sequence[int]) -> list[int]:
        """Return the end of a previous text that has room."""
        room = max(0, self.context_length - self.max_tokens - _NUM_MARKS)
        return list(token_ids[max(0, len(token_ids) - room) :])


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptionRequest:
    """An audio file to transcribe.

    `read_window(start, num_samples)` returns samples, later ones each time, and blocks. `language` is a code,
    None to detect it. `prompt` is text that came before. Without a `temperature` above 0, failed windows are
    decoded again at higher ones.
    """

    model: str
    num_samples: int
    read_window: Callable[[int, int], bytes]
    task: SpeechTask = "transcribe"
    language: str | None = None
    prompt: str = ""
    temperature: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechSegment:
    """The text from `start` to `end`, in seconds.

    The figures are those of its window, which begins at sample `seek`.
    """

    start: float
    end: float
    text: str
    token_ids: tuple[int, ...]
    seek: int
    temperature: float
    mean_logprob: float
    compression_ratio: float
    no_speech: float


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
