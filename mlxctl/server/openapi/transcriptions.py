"""What transcriptions and translations answer, as types: only for the description, as those of completions."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType


class HeardDuration(Struct):
    """How much was listened to."""

    type: Literal["duration"]
    seconds: int


class Transcription(Struct):
    """What was said; of a translation without usage."""

    text: str
    usage: HeardDuration | UnsetType = UNSET


class TranscriptSegment(Struct):
    """What was said from start to end, in seconds; `seek` is where its window begins, in hundredths of a
    second.
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
    """What was said, and when."""

    task: Literal["transcribe", "translate"]
    language: str
    duration: float
    text: str
    segments: list[TranscriptSegment]
    usage: HeardDuration | UnsetType = UNSET
