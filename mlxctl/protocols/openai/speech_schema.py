"""Bodies of `/v1/audio/speech` and `/v1/audio/voices`, and events of streams.

Null means not set; other fields are ignored.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from mlxctl.ir.audio_format import AudioFormat
from mlxctl.protocols.ranges import Name, Seed

MAX_INPUT_CHARS = 4096
"""OpenAI's limit of one text."""

Voice = Annotated[str, Meta(max_length=1024)]


class VoiceId(Struct):
    """A voice by its id."""

    id: Name


class CreateSpeechRequest(Struct, kw_only=True):
    """Body of a speech request.

    `voice` is a name of the model's, or one of OpenAI's. Beyond OpenAI: `voice` may be left out, `language`
    is one of the model's, and the same `seed` gives the same audio. With `ref_audio` (a file as base64) and
    `ref_text`, what is said there, the model speaks in the voice of that recording.
    """

    model: Name
    input: Annotated[str, Meta(max_length=MAX_INPUT_CHARS)]
    voice: Voice | VoiceId | None = None
    instructions: Annotated[str, Meta(max_length=MAX_INPUT_CHARS)] | None = None
    response_format: AudioFormat | None = None
    speed: Annotated[float, Meta(ge=0.25, le=4)] | None = None
    stream_format: Literal["audio", "sse"] | None = None
    language: Name | None = None
    seed: Seed | None = None
    ref_audio: str | None = None
    ref_text: Annotated[str, Meta(max_length=MAX_INPUT_CHARS)] | None = None


class SpeechUsage(Struct):
    """Tokens of the text, and of the audio."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


class SpeechAudioDelta(Struct, kw_only=True):
    """Event of a stream: the next bytes of the file, as base64."""

    type: Literal["speech.audio.delta"] = "speech.audio.delta"
    audio: bytes


class SpeechAudioDone(Struct, kw_only=True):
    """Last event of a stream."""

    type: Literal["speech.audio.done"] = "speech.audio.done"
    usage: SpeechUsage


class VoiceEntry(Struct, kw_only=True):
    """A voice of a model."""

    id: str
    name: str
    model: str
    is_default: bool


class VoiceList(Struct):
    """The voices of all speech models, or of one."""

    voices: list[VoiceEntry]
