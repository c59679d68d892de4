"""OpenAI speech: text to audio."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from mlxctl.ir import SpeechRecipe
from mlxctl.ir.audio_format import AudioFormat
from mlxctl.ir.errors import InvalidRequest, MlxctlError
from mlxctl.protocols.decoding import decode_body
from mlxctl.protocols.media import recording_from_base64
from mlxctl.protocols.openai.errors import error_json
from mlxctl.protocols.openai.speech_schema import (
    CreateSpeechRequest,
    SpeechAudioDelta,
    SpeechAudioDone,
    SpeechUsage,
    VoiceEntry,
    VoiceId,
    VoiceList,
)

OPENAI_VOICES = (
    *("alloy", "ash", "ballad", "coral", "echo", "fable", "onyx"),
    *("nova", "sage", "shimmer", "verse", "marin", "cedar"),
)
"""Voices that OpenAI's clients offer; each is a voice of every model."""

_DECODER = msgspec.json.Decoder(CreateSpeechRequest)
# A model's only voice, or the one of requests that name none.
_DEFAULT = "default"
# Home Assistant sends the text of Python's None.
_NO_INSTRUCTIONS = ("", "None")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedSpeech:
    """A parsed body.

    `recording` is not decoded; `recorded_text` is what is said in it.
    """

    model: str
    text: str
    voice: str | None
    instructions: str | None
    language: str | None
    speed: float
    seed: int | None
    recording: bytes | None
    recorded_text: str
    format: AudioFormat
    sends_events: bool


def parse_speech(body: bytes) -> ParsedSpeech:
    """Parse a request body. Raises InvalidRequest."""
    decoded = decode_body(body, _DECODER)
    if not any(map(_is_visible, decoded.input)):
        raise InvalidRequest("input has no text to speak", param="input")
    recording, recorded_text = _recording(decoded)
    voice = decoded.voice.id if isinstance(decoded.voice, VoiceId) else decoded.voice
    instructions = (decoded.instructions or "").strip()
    return ParsedSpeech(
        model=decoded.model,
        text=decoded.input,
        voice=voice or None,
        instructions=None if instructions in _NO_INSTRUCTIONS else instructions,
        language=decoded.language,
        speed=1.0 if decoded.speed is None else decoded.speed,
        seed=decoded.seed,
        recording=recording,
        recorded_text=recorded_text,
        format=decoded.response_format or "mp3",
        sends_events=decoded.stream_format == "sse",
    )


def find_voice(name: str | None, recipe: SpeechRecipe) -> str | None:
    """Return the model's voice for a requested one.

    None is its only or default one. OpenAI's voices are the model's, in the order of both lists. A name that
    neither has is returned as it is.
    """
    asked = (name or _DEFAULT).casefold()
    by_name = {voice.casefold(): voice for voice in recipe.voices}
    if name in recipe.voices or asked in by_name:
        return name if name in recipe.voices else by_name[asked]
    if asked == _DEFAULT or (asked in OPENAI_VOICES and not recipe.voices):
        return None
    return recipe.voices[OPENAI_VOICES.index(asked) % len(recipe.voices)] if asked in OPENAI_VOICES else name


class SpeechEvents:
    """Writes the events of a stream: `delta` for each part, then `done`."""

    def delta(self, audio: bytes) -> bytes:
        """Return the event of the next bytes."""
        return _event(SpeechAudioDelta(audio=audio))

    def done(self, *, num_text_tokens: int, num_audio_tokens: int) -> bytes:
        """Return the last event."""
        usage = SpeechUsage(num_text_tokens, num_audio_tokens, num_text_tokens + num_audio_tokens)
        return _event(SpeechAudioDone(usage=usage))

    def on_error(self, error: MlxctlError, *, request_id: str | None = None) -> bytes:  # noqa: ARG002 -- not in its shape
        """Return the event that ends a failed stream."""
        return b"data: " + error_json(error) + b"\n\n"

    def ping(self) -> bytes:
        """Return a keep-alive."""
        return b": ping\n\n"


def encode_voices(models: Sequence[tuple[str, SpeechRecipe]]) -> bytes:
    """Return the list of the voices of models.

    One that requires a description of a voice has none.
    """
    entries = [
        VoiceEntry(id=voice, name=voice, model=model, is_default=voice == (recipe.default_voice or _DEFAULT))
        for model, recipe in models
        for voice in recipe.voices or (() if recipe.requires else (_DEFAULT,))
    ]
    return msgspec.json.encode(VoiceList(entries))


def _recording(decoded: CreateSpeechRequest) -> tuple[bytes | None, str]:
    """Return the recording of a voice, and its text."""
    if decoded.ref_audio is None:
        if decoded.ref_text is not None:
            raise InvalidRequest("ref_text needs ref_audio, where it is said", param="ref_text")
        return None, ""
    if decoded.ref_text is None or not decoded.ref_text.strip():
        raise InvalidRequest("ref_audio needs ref_text, what is said in it", param="ref_text")
    return recording_from_base64(decoded.ref_audio, "ref_audio"), decoded.ref_text


def _is_visible(character: str) -> bool:
    """Whether it is neither white space nor a control or format character."""
    return unicodedata.category(character)[0] not in "ZC"


def _event(event: msgspec.Struct) -> bytes:
    return b"data: " + msgspec.json.encode(event) + b"\n\n"
