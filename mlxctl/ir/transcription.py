"""Speech as text: how a model listens, what is asked for, and what comes out. Pure values.

Sound is always mono, SAMPLE_RATE signed 16-bit samples a second, in the machine's byte order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

SAMPLE_RATE = 16_000
SAMPLE_BYTES = 2
STEP_SAMPLES = 320
"""What one step of a model's times stands for: 0.02 seconds."""

SpeechTask = Literal["transcribe", "translate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptionRecipe:
    """How a model of the Whisper kind listens: to a window at a time, and which tokens tell it what to do.

    `languages` are ids by code, empty for a model that knows one language and needs no telling; `first_time`
    is the id of the time 0.00, those behind it are later by a step each. `suppressed` are never written,
    `suppressed_first` not at the beginning. `no_speech` is how such a model says that nobody speaks, None
    where it cannot.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptionRequest:
    """A sound file to be written down.

    `read_window(start, num_samples)` gives samples, later ones each time, and blocks.

    `language` is a code, None to find out. `prompt` is what was said before. Without a `temperature` above 0,
    what looks wrong is written again at higher ones.
    """

    model: str
    num_samples: int
    read_window: Callable[[int, int], bytes]
    task: SpeechTask = "transcribe"
    language: str | None = None
    prompt: str = ""
    temperature: float = 0.0
    request_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechSegment:
    """What was said from `start` to `end`, in seconds; the figures are those of its window, which begins at
    sample `seek`.
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
    """All that was said.

    `language` is a code, None where the model knows one language and does not name it.
    """

    language: str | None
    duration_seconds: float
    segments: tuple[SpeechSegment, ...]

    @property
    def text(self) -> str:
        """The segments as one text."""
        return "".join(segment.text for segment in self.segments).strip()
