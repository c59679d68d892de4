"""Speech of another server: bodies of requests, and WAV answers. Pure."""

import struct
from base64 import b64encode
from typing import Any

from mlxctl.formats.adapters.media.speech_files import SpeechFile
from mlxctl.ir import ReferenceAudio, SpeechChunk, SpeechRequest
from mlxctl.ir.errors import ConnectionLost

_MAX_HEADER_BYTES = 64 * 1024
# Two hours at 24 kHz.
_MAX_AUDIO_BYTES = 384 * 1024**2
_RIFF = struct.Struct("<4sI4s")
_CHUNK = struct.Struct("<4sI")
_FORMAT = struct.Struct("<HHIIHH")
_PCM, _EXTENSIBLE = 1, 0xFFFE


def speech_body(request: SpeechRequest) -> dict[str, Any]:
    """Return the body of `POST /v1/audio/speech`, without what has its default."""
    reference = request.reference
    fields = {
        "voice": request.voice,
        "instructions": request.instructions,
        "language": request.language,
        "speed": None if request.speed == 1 else request.speed,
        "seed": request.seed,
        "ref_audio": _wav_base64(reference) if reference else None,
        "ref_text": reference.text if reference else None,
    }
    return {
        "model": request.model,
        "input": request.text,
        "response_format": "wav",
        **{name: value for name, value in fields.items() if value is not None},
    }


class WavReader:
    """Samples of a WAV file that comes in parts.

    Methods raise ConnectionLost.
    """

    def __init__(self) -> None:
        self._unread = bytearray()
        self._sample_rate = 0
        self._num_bytes = 0

    def feed(self, data: bytes) -> SpeechChunk | None:
        """Return the samples that are complete with `data`, if any."""
        self._num_bytes += len(data)
        if self._num_bytes > _MAX_AUDIO_BYTES:
            raise ConnectionLost(f"the server sent more than {_MAX_AUDIO_BYTES} bytes of audio")
        self._unread += data
        if not self._sample_rate and not self._read_header():
            return None
        num_bytes = len(self._unread) // 2 * 2
        samples = bytes(self._unread[:num_bytes])
        del self._unread[:num_bytes]
        return SpeechChunk(samples=_floats(samples), sample_rate=self._sample_rate) if samples else None

    def finish(self) -> SpeechChunk:
        """Return the last chunk."""
        if not self._sample_rate:
            raise ConnectionLost("the server sent no WAV file")
        return SpeechChunk(samples=b"", sample_rate=self._sample_rate, is_last=True)

    def _read_header(self) -> bool:
        """Drop the header if it is complete, and return whether it is."""
        head = bytes(self._unread[:_MAX_HEADER_BYTES])
        if len(head) < _RIFF.size:
            return False
        riff, _, wave = _RIFF.unpack_from(head)
        if (riff, wave) != (b"RIFF", b"WAVE"):
            raise ConnectionLost("the server sent no WAV file")
        position, rate = _RIFF.size, 0
        while len(head) >= position + _CHUNK.size:
            name, size = _CHUNK.unpack_from(head, position)
            position += _CHUNK.size
            if name == b"data":
                if not rate:
                    raise ConnectionLost("the server sent a WAV file without a format")
                self._sample_rate = rate
                del self._unread[:position]
                return True
            if name == b"fmt " and len(head) >= position + _FORMAT.size:
                rate = _rate_of(*_FORMAT.unpack_from(head, position))
            position += size + size % 2
        if len(head) == _MAX_HEADER_BYTES:
            raise ConnectionLost("the server sent a WAV file without audio")
        return False


def _rate_of(kind: int, num_channels: int, rate: int, _: int, __: int, num_bits: int) -> int:
    if kind not in (_PCM, _EXTENSIBLE) or num_channels != 1 or num_bits != 16 or not rate:
        raise ConnectionLost(
            f"the server sent a WAV file of {num_channels} channels with {num_bits} bits (kind {kind}); mono "
            "with 16 bits is needed"
        )
    return rate


def _floats(samples: bytes) -> bytes:
    import numpy as np

    values: bytes = (np.frombuffer(samples, dtype="<i2") / np.float32(32768)).astype("<f4").tobytes()
    return values


def _wav_base64(reference: ReferenceAudio) -> str:
    file = SpeechFile("wav", reference.sample_rate)
    return b64encode(file.write(reference.samples) + file.close()).decode()
