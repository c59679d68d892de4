"""File formats of audio, generated and sent."""

from typing import Literal

AudioFormat = Literal["mp3", "opus", "flac", "wav", "pcm"]
"""OpenAI's names. `opus` is in an Ogg file, `pcm` has no header: 16 bits, little-endian, at PCM_RATE."""

Law = Literal["audio/pcmu", "audio/pcma"]
"""G.711 of telephones, μ-law and A-law."""

PCM_RATE = 24_000
"""Samples a second of `pcm`, which clients of OpenAI's API assume."""

MEDIA_TYPES: dict[AudioFormat, str] = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}

SENT_FORMATS = ("audio/wav", "audio/mp3", "audio/flac", "audio/ogg")
"""The media types of OpenAI's `input_audio`, whose subtypes are its formats."""

_SIGNATURES = (
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mp3"),
    (b"\x1a\x45\xdf\xa3", "audio/webm"),
)


def audio_media_type(data: bytes) -> str | None:
    """Return the media type of an audio file by its start.

    That is 12 bytes. None for what is no audio file; a container may have video too.
    """
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        return "audio/wav"
    if data[4:8] == b"ftyp":
        return "audio/mp4"
    if len(data) > 1 and data[0] == 0xFF:
        # Bits of an MPEG frame: a layer for MP3, none for AAC.
        return "audio/mp3" if data[1] & 0xE6 == 0xE2 else "audio/aac" if data[1] & 0xF6 == 0xF0 else None
    return next((kind for mark, kind in _SIGNATURES if data.startswith(mark)), None)
