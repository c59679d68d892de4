"""Audio files of requests, decoded as they are read."""

from collections.abc import Iterator
from threading import Event
from typing import Any

from mlxctl.formats.adapters.media.audio_decoders import find_decoder
from mlxctl.formats.adapters.media.voice_activity import FRAME_SAMPLES, frame_levels, loud_parts
from mlxctl.ir.errors import InvalidRequest
from mlxctl.ir.transcription import SAMPLE_BYTES, SAMPLE_RATE

MAX_AUDIO_SECONDS = 4 * 60 * 60
"""The longest file; a small one may hold days of silence."""

_MIN_AUDIO_SECONDS = 0.1


class AudioFile:
    """One audio file as 16 kHz mono samples.

    `num_samples`, and the parts that may hold speech, are found by decoding the file once. Only the window
    that is read stays decoded, and 40 bytes for each second.
    """

    def __init__(self, data: bytes, *, is_cancelled: Event | None = None) -> None:
        """Decode a whole file to find its length. Blocks, unless `is_cancelled`.

        Raises InvalidRequest for data that is no audio, or too much of it.
        """
        self._decode = find_decoder(data, max_seconds=MAX_AUDIO_SECONDS)
        self._data = data
        self._is_cancelled = is_cancelled
        self.num_samples, self.speech = self._survey()
        self._chunks: Iterator[bytes] = iter(self._decode(data))
        self._decoded = bytearray()
        self._start = 0

    @property
    def seconds(self) -> float:
        """Duration of the audio, in seconds."""
        return self.num_samples / SAMPLE_RATE

    def read_window(self, start: int, num_samples: int) -> bytes:
        """Return up to `num_samples` samples from `start` on. Blocks.

        Windows have to advance: `start` is never before that of an earlier window.
        """
        assert start >= self._start, "a file is read forwards"
        while self._start + len(self._decoded) // SAMPLE_BYTES < start + num_samples:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            self._decoded += chunk
            self._forget_before(start)
        self._forget_before(start)
        return bytes(self._decoded[: num_samples * SAMPLE_BYTES])

    def _forget_before(self, start: int) -> None:
        num_bytes = min((start - self._start) * SAMPLE_BYTES, len(self._decoded))
        del self._decoded[:num_bytes]
        self._start += num_bytes // SAMPLE_BYTES

    def _survey(self) -> tuple[int, tuple[tuple[int, int], ...]]:
        """Return the number of samples, and the parts that may hold speech."""
        import numpy as np

        num_samples, levels = 0, bytearray()
        rest: Any = np.zeros(0, np.int16)
        for chunk in self._decode(self._data):
            num_samples += len(chunk) // SAMPLE_BYTES
            if self._is_cancelled is not None and self._is_cancelled.is_set():
                raise InvalidRequest("file is not needed any more: the client has disconnected", param="file")
            if num_samples > MAX_AUDIO_SECONDS * SAMPLE_RATE:
                limit = f"{MAX_AUDIO_SECONDS // 3600} hours"
                raise InvalidRequest(f"file holds more than {limit} of audio; send it in parts", param="file")
            samples = np.concatenate([rest, np.frombuffer(chunk, np.int16)])
            levels += frame_levels(samples)
            rest = samples[len(samples) // FRAME_SAMPLES * FRAME_SAMPLES :]
        if num_samples < _MIN_AUDIO_SECONDS * SAMPLE_RATE:
            message = (
                f"file holds {num_samples / SAMPLE_RATE:.2f} seconds of audio; "
                f"at least {_MIN_AUDIO_SECONDS} are needed"
            )
            raise InvalidRequest(message, param="file")
        return num_samples, loud_parts(bytes(levels), num_samples=num_samples)
