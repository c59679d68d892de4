"""The form of `POST /v1/audio/transcriptions` and `/v1/audio/translations` as OpenAI documents it.

Fields that are not here are ignored; those that would change the answer and are not honored are refused by
name.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from mlxctl.protocols.ranges import Name

TranscriptionFormat = Literal["json", "text", "srt", "verbose_json", "vtt"]


class TranslationForm(Struct, kw_only=True):
    """The whole form of a translation; `file` is a sound file."""

    file: bytes
    model: Name
    prompt: str = ""
    response_format: TranscriptionFormat = "json"
    temperature: Annotated[float, Meta(ge=0, le=1)] = 0.0


class TranscriptionForm(TranslationForm, kw_only=True):
    """The whole form of a transcription. Times are those of segments; those of words are not known here."""

    language: Name | None = None
    stream: bool = False
    timestamp_granularities: list[Literal["segment", "word"]] = field(default_factory=list)
