"""File formats of generated audio."""

from typing import Literal

AudioFormat = Literal["mp3", "opus", "flac", "wav", "pcm"]
"""OpenAI's names. `opus` is in an Ogg file, `pcm` has no header: 16 bits, little-endian, at PCM_RATE."""

PCM_RATE = 24_000
"""Samples a second of `pcm`, which clients of OpenAI's API assume."""

MEDIA_TYPES: dict[AudioFormat, str] = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}
