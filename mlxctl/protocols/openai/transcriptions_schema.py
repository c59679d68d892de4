"""Bodies of `POST /v1/audio/transcriptions` and `/v1/audio/translations`.

Other fields are ignored; unsupported ones that would change the answer are refused by name.
"""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from mlxctl.protocols.ranges import Name

Keyword = Annotated[str, Meta(min_length=1, max_length=200)]

TranslationFormat = Literal["json", "text", "srt", "verbose_json", "vtt"]
TranscriptionFormat = TranslationFormat | Literal["diarized_json"]
TimestampGranularity = Literal["segment", "word"]


class InputAudio(Struct):
    """An audio file in base64.

    Its first bytes decide the format, and `format` is ignored.
    """

    data: str
    format: str | None = None


class _Options(Struct, kw_only=True):
    model: Name
    prompt: str = ""
    temperature: Annotated[float, Meta(ge=0, le=1)] = 0.0


class TranscriptionOptions(_Options, kw_only=True):
    """Fields of a transcription beside its file.

    `language` is the known one, `languages` are those that may be heard, `keywords` words that may be. Files
    are always divided as the `chunking_strategy` auto says. With `stream` the answer is events, and
    `response_format` json, text or diarized_json. `known_speaker_names` label the speakers that are heard in
    `known_speaker_references`, data URLs of 2 to 10 seconds of audio.
    """

    response_format: TranscriptionFormat = "json"
    language: Name | None = None
    languages: Annotated[list[Name], Meta(max_length=100)] = field(default_factory=list)
    keywords: Annotated[list[Keyword], Meta(max_length=100)] = field(default_factory=list)
    chunking_strategy: Literal["auto"] = "auto"
    stream: bool = False
    timestamp_granularities: list[TimestampGranularity] = field(default_factory=list)
    known_speaker_names: Annotated[list[Name], Meta(max_length=4)] = field(default_factory=list)
    known_speaker_references: Annotated[list[str], Meta(max_length=4)] = field(default_factory=list)


class TranslationForm(_Options, kw_only=True):
    """Form of a translation; `file` is an audio file."""

    file: bytes
    response_format: TranslationFormat = "json"


class TranscriptionForm(TranscriptionOptions, kw_only=True):
    """Form of a transcription; `file` is an audio file."""

    file: bytes


class TranscriptionBody(TranscriptionOptions, kw_only=True):
    """JSON body of a transcription, as Open WebUI sends it."""

    input_audio: InputAudio


class TranscriptionUsage(Struct):
    """Duration of the audio, rounded up to seconds."""

    type: Literal["duration"]
    seconds: int


class Transcription(Struct):
    """The text; a translation has no usage."""

    text: str
    usage: TranscriptionUsage | UnsetType = UNSET


class TranscriptTextDelta(Struct, kw_only=True):
    """Event of a stream: the text of the next segment.

    Its times, and the duration of the file, are in seconds; OpenAI has none. `segment_id` is that of a
    diarized segment.
    """

    type: Literal["transcript.text.delta"] = "transcript.text.delta"
    delta: str
    start: float
    end: float
    duration: float
    segment_id: str | UnsetType = UNSET


class TranscriptTextDone(Struct, kw_only=True):
    """Last event of a stream: the whole text."""

    type: Literal["transcript.text.done"] = "transcript.text.done"
    text: str
    usage: TranscriptionUsage


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


class DiarizedSegment(Struct, kw_only=True):
    """Text of one speaker, also an event of a stream.

    Times in seconds.
    """

    type: Literal["transcript.text.segment"] = "transcript.text.segment"
    id: str
    start: float
    end: float
    text: str
    speaker: str


class DiarizedTranscription(Struct, kw_only=True):
    """The text with its segments, each of one speaker.

    `duration` is in seconds.
    """

    task: Literal["transcribe"] = "transcribe"
    duration: float
    text: str
    segments: list[DiarizedSegment]
    usage: TranscriptionUsage


class TranscriptionWord(Struct):
    """A word with its times, in seconds."""

    word: str
    start: float
    end: float


class VerboseTranscription(Struct):
    """The text with its segments, or words, or both.

    `duration` is in seconds.
    """

    task: Literal["transcribe", "translate"]
    language: str
    duration: float
    text: str
    segments: list[TranscriptionSegment] | UnsetType = UNSET
    words: list[TranscriptionWord] | UnsetType = UNSET
    usage: TranscriptionUsage | UnsetType = UNSET
