"""OpenAI transcriptions and translations."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from msgspec import UNSET

from mlxctl.ir import SpeechSegment, SpeechTask, TimedWord, TranscriptionResult
from mlxctl.ir.errors import InvalidRequest, MlxctlError
from mlxctl.protocols.media import audio_from_base64, recording_from_base64
from mlxctl.protocols.openai.errors import error_json
from mlxctl.protocols.openai.subtitles import srt, vtt
from mlxctl.protocols.openai.transcriptions_schema import (
    DiarizedSegment,
    DiarizedTranscription,
    InputAudio,
    TimestampGranularity,
    Transcription,
    TranscriptionForm,
    TranscriptionFormat,
    TranscriptionSegment,
    TranscriptionUsage,
    TranscriptionWord,
    TranscriptTextDelta,
    TranscriptTextDone,
    TranslationForm,
    VerboseTranscription,
)
from mlxctl.protocols.validation_errors import explain

_Form = TranslationForm | TranscriptionForm
_FORMS: dict[SpeechTask, type[_Form]] = {
    "transcribe": TranscriptionForm,
    "translate": TranslationForm,
}
_LISTS = (
    "timestamp_granularities",
    "languages",
    "keywords",
    "known_speaker_names",
    "known_speaker_references",
)
_DIARIZED: TranscriptionFormat = "diarized_json"
# Fields of OpenAI's models that would change the answer.
_UNSUPPORTED_FIELDS = ("include",)
# OpenAI's `seek` counts spectrogram frames of a hundredth of a second.
_FRAME_SAMPLES = 160
_JSON, _TEXT = "application/json", "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedTranscription:
    """A parsed form; its audio files are not decoded yet."""

    file: bytes
    model: str
    task: SpeechTask
    language: str | None
    prompt: str
    temperature: float
    format: TranscriptionFormat
    stream: bool = False
    languages: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    granularities: frozenset[TimestampGranularity] = frozenset()
    known_speakers: tuple[tuple[str, bytes], ...] = ()

    @property
    def is_diarized(self) -> bool:
        """Whether the answer names speakers."""
        return self.format == _DIARIZED

    @property
    def has_words(self) -> bool:
        """Whether the answer needs the times of words."""
        return self.is_diarized or "word" in self.granularities


def parse_transcription(fields: Mapping[str, list[bytes]], task: SpeechTask) -> ParsedTranscription:
    """Parse a form: all values of each field. Raises InvalidRequest."""
    values = {name.removesuffix("[]"): given for name, given in fields.items()}
    if refused := next((name for name in _UNSUPPORTED_FIELDS if name in values), None):
        raise InvalidRequest(f"{refused} is not supported; leave it out", param=refused)
    if any(name.startswith("chunking_strategy[") for name in values):
        message = "chunking_strategy is supported as auto only; leave it out"
        raise InvalidRequest(message, param="chunking_strategy")
    form = _read(values, _FORMS[task])
    parsed = ParsedTranscription(
        file=form.file,
        model=form.model,
        task=task,
        language=None,
        prompt=form.prompt,
        temperature=form.temperature,
        format=form.response_format,
    )
    if not isinstance(form, TranscriptionForm):
        return parsed
    _check_options(form)
    return replace(
        parsed,
        language=form.language.lower() if form.language else None,
        stream=form.stream,
        languages=tuple(language.lower() for language in form.languages),
        keywords=tuple(form.keywords),
        granularities=frozenset(form.timestamp_granularities),
        known_speakers=tuple(_known_speakers(form)),
    )


def fields_of_json(body: bytes) -> dict[str, list[bytes]]:
    """Return a JSON body as the fields of a form. Raises InvalidRequest.

    The file is in `input_audio`.
    """
    try:
        given = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"the request body is not a JSON object: {error}") from error
    try:
        audio = msgspec.convert(given.pop("input_audio", None), InputAudio)
    except msgspec.ValidationError as error:
        message = "input_audio must be an object with the audio file in base64 as data"
        raise InvalidRequest(message, param="input_audio") from error
    file = audio_from_base64(audio.data, audio.format or "wav", "input_audio").data
    fields = {
        name: [_field(item) for item in (value if isinstance(value, list) else [value])]
        for name, value in given.items()
        if value is not None
    }
    return fields | {"file": [file]}


def _field(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)


class TranscriptionEncoder:
    """Writes the answer to one form.

    `duration` is that of the file in seconds.
    A stream is `delta` for each window, then `done`; a diarized one has an event for each segment, too.
    """

    def __init__(self, asked: ParsedTranscription, *, duration: float) -> None:
        self._task = asked.task
        self._format = asked.format
        self._granularities = asked.granularities
        self._duration = duration
        self._has_begun = False
        self._num_segments = 0
        # White space at the end of the text so far: it may be the end of the whole text, which has none.
        self._space = ""

    @property
    def media_type(self) -> str:
        """Media type of the answer."""
        return _JSON if self._format.endswith("json") else _TEXT

    def whole(self, result: TranscriptionResult) -> bytes:
        """Return the answer in the requested response_format."""
        match self._format:
            case "json":
                usage = UNSET if self._task == "translate" else _usage(result)
                return msgspec.json.encode(Transcription(text=result.text, usage=usage))
            case "verbose_json":
                return msgspec.json.encode(self._verbose(result))
            case "text":
                return f"{result.text}\n".encode()
            case "srt":
                return srt(result).encode()
            case "vtt":
                return vtt(result).encode()
            case "diarized_json":
                return msgspec.json.encode(_diarized(result))

    def delta(self, segments: Sequence[SpeechSegment]) -> bytes:
        """Return the events of a window's segments, b"" without text."""
        return b"".join(map(self._delta, segments))

    def _delta(self, segment: SpeechSegment) -> bytes:
        text = self._space + segment.text
        if not self._has_begun:
            text = text.lstrip()
        shown = text.rstrip()
        self._space = text[len(shown) :]
        if not shown:
            return b""
        self._has_begun = True
        delta = TranscriptTextDelta(
            delta=shown,
            start=round(segment.start, 3),
            end=round(segment.end, 3),
            duration=round(self._duration, 3),
        )
        if self._format != _DIARIZED:
            return _event(msgspec.json.encode(delta))
        part = _diarized_segment(self._num_segments, segment)
        self._num_segments += 1
        delta.segment_id = part.id
        return _event(msgspec.json.encode(delta)) + _event(msgspec.json.encode(part))

    def done(self, result: TranscriptionResult) -> bytes:
        """Return the last event."""
        done = TranscriptTextDone(text=result.text, usage=_usage(result))
        return _event(msgspec.json.encode(done))

    def on_error(self, error: MlxctlError, *, request_id: str | None = None) -> bytes:  # noqa: ARG002 -- not in its shape
        """Return the event that ends a failed stream."""
        return _event(error_json(error))

    def ping(self) -> bytes:
        """Return a keep-alive."""
        return b": ping\n\n"

    def _verbose(self, result: TranscriptionResult) -> VerboseTranscription:
        shown: frozenset[TimestampGranularity] = self._granularities or frozenset({"segment"})
        words = [word for segment in result.segments for word in segment.words]
        return VerboseTranscription(
            task=self._task,
            language="en" if self._task == "translate" else result.language or "en",
            duration=round(result.duration_seconds, 3),
            text=result.text,
            segments=[_segment(number, segment) for number, segment in enumerate(result.segments)]
            if "segment" in shown
            else UNSET,
            words=list(map(_word, words)) if "word" in shown else UNSET,
            usage=UNSET if self._task == "translate" else _usage(result),
        )


def _diarized(result: TranscriptionResult) -> DiarizedTranscription:
    # As in a stream: a segment has a text.
    segments = (segment for segment in result.segments if segment.text.strip())
    return DiarizedTranscription(
        duration=round(result.duration_seconds, 3),
        text=result.text,
        segments=[_diarized_segment(number, segment) for number, segment in enumerate(segments)],
        usage=_usage(result),
    )


def _diarized_segment(number: int, segment: SpeechSegment) -> DiarizedSegment:
    return DiarizedSegment(
        id=f"seg_{number}",
        start=round(segment.start, 3),
        end=round(segment.end, 3),
        text=segment.text.strip(),
        speaker=segment.speaker or "A",
    )


def _usage(result: TranscriptionResult) -> TranscriptionUsage:
    return TranscriptionUsage(type="duration", seconds=math.ceil(result.duration_seconds))


def _read(values: Mapping[str, list[bytes]], schema: type[_Form]) -> _Form:
    read: dict[str, Any] = {}
    for name, given in values.items():
        if name == "file":
            read[name] = given[-1]
            continue
        try:
            texts = [value.decode() for value in given]
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"{name} is not valid UTF-8; encode it as UTF-8", param=name) from error
        read[name] = texts if name in _LISTS else texts[-1]
    try:
        return msgspec.convert(read, schema, strict=False)
    except msgspec.ValidationError as error:
        raise explain(str(error), schema, lambda: read) from error


def _check_options(form: TranscriptionForm) -> None:
    if form.stream and form.response_format not in ("json", "text", _DIARIZED):
        message = f"response_format {form.response_format} cannot be streamed; request json"
        raise InvalidRequest(message, param="response_format")
    if form.language and form.languages:
        raise InvalidRequest("language and languages exclude each other; send one", param="languages")
    if form.timestamp_granularities and form.response_format != "verbose_json":
        message = "timestamp_granularities needs response_format verbose_json"
        raise InvalidRequest(message, param="timestamp_granularities")


def _known_speakers(form: TranscriptionForm) -> Iterator[tuple[str, bytes]]:
    """Yield names and audio files of known speakers. Raises InvalidRequest."""
    names, files = form.known_speaker_names, form.known_speaker_references
    if (names or files) and form.response_format != _DIARIZED:
        message = "known_speaker_names needs response_format diarized_json"
        raise InvalidRequest(message, param="known_speaker_names")
    if len(names) != len(files):
        message = "known_speaker_references must have one audio file for each of known_speaker_names"
        raise InvalidRequest(message, param="known_speaker_references")
    for number, (name, file) in enumerate(zip(names, files, strict=True)):
        yield name, recording_from_base64(file, f"known_speaker_references[{number}]")


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def _word(word: TimedWord) -> TranscriptionWord:
    return TranscriptionWord(word=word.text.strip(), start=round(word.start, 3), end=round(word.end, 3))


def _segment(number: int, segment: SpeechSegment) -> TranscriptionSegment:
    return TranscriptionSegment(
        id=number,
        seek=segment.seek // _FRAME_SAMPLES,
        start=round(segment.start, 3),
        end=round(segment.end, 3),
        text=segment.text,
        tokens=list(segment.token_ids),
        temperature=segment.temperature,
        avg_logprob=segment.mean_logprob,
        compression_ratio=segment.compression_ratio,
        no_speech_prob=segment.no_speech,
    )
