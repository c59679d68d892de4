"""Forms of `POST /v1/audio/transcriptions` and `/v1/audio/translations`.

Other fields are ignored; unsupported ones that would change the answer are refused by name.
"""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from mlxctl.protocols.ranges import Name

TranscriptionFormat = Literal["json", "text", "srt", "verbose_json", "vtt"]


class TranslationForm(Struct, kw_only=True):
    """Form of a translation; `file` is an audio file."""

    file: bytes
    model: Name
    prompt: str = ""
    response_format: TranscriptionFormat = "json"
    temperature: Annotated[float, Meta(ge=0, le=1)] = 0.0


class TranscriptionForm(TranslationForm, kw_only=True):
    """Form of a transcription; timestamps are those of segments, not words.

    With `stream` the answer is events, and `response_format` json or text.
    """

    language: Name | None = None
    stream: bool = False
    timestamp_granularities: list[Literal["segment", "word"]] = field(default_factory=list)


class TranscriptionUsage(Struct):
    """Duration of the audio, rounded up to seconds."""

    type: Literal["duration"]
    seconds: int


class Transcription(Struct):
    """The text; a translation has no usage."""

    text: str
    usage: TranscriptionUsage | UnsetType = UNSET


class TranscriptTextDelta(Struct, kw_only=True):
    """Event of a stream: the text of the next window."""

    type: Literal["transcript.text.delta"] = "transcript.text.delta"
    delta: str


class TranscriptTextDone(Struct, kw_only=True):
    """Last event of a stream: the whole text."""

    type: Literal["transcript.text.done"] = "transcript.text.done"
    text: str


class TranscriptionSegment(Struct):
    """A segment of the transcription.

    Times in seconds, `seek` is the start of its window in hundredths of a second.
    """

    id: int
    seek: int
    start: float
    end: float
    text: str
    tokens: list[int]
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float


class VerboseTranscription(Struct):
    """The text with its segments; `duration` is in seconds."""

    task: Literal["transcribe", "translate"]
    language: str
    duration: float
    text: str
    segments: list[TranscriptionSegment]
    usage: TranscriptionUsage | UnsetType = UNSET
