"""Generated audio as a file, encoded as the samples come.

Every file has one header, which says nothing about the length: it is not known when the first bytes leave.
Slow: for workers.
"""

import struct
from typing import Any

from mlxctl.formats.adapters.media.resampling import Resampler
from mlxctl.ir.audio_format import PCM_RATE, AudioFormat
from mlxctl.ir.errors import InvalidRequest
from mlxctl.state.installed import file_of

# The rates that an encoder takes; None is any.
_RATES: dict[str, tuple[int, ...] | None] = {
    "mp3": (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000),
    "opus": (8000, 12000, 16000, 24000, 48000),
    "flac": None,
}
# Options of libsndfile. Players find the duration of an MP3 file without a length from its bit rate, if that
# is constant: 80 kbit/s at 24 kHz, 160 from 32 kHz on.
_OPTIONS: dict[str, dict[str, Any]] = {
    "mp3": {
        "format": "MP3",
        "subtype": "MPEG_LAYER_III",
        "bitrate_mode": "CONSTANT",
        "compression_level": 0.5,
    },
    "opus": {"format": "OGG", "subtype": "OPUS"},
    "flac": {"format": "FLAC", "subtype": "PCM_16"},
}
_FALLBACK_RATE = 48_000
# The largest size that a header can have; decoders then read to the end.
_UNKNOWN_BYTES = 0xFFFFFFFF
_SAMPLE_BYTES = 2
_WAV_HEADER_BYTES = 44


class SpeechFile:
    """One answer as a file of 16-bit mono samples.

    What `write` and `close` return are the bytes of the file, in order. `corrections` are offsets with the
    bytes that belong there, known at the end, for a file that can be rewritten. One thread at a time.
    """

    def __init__(self, kind: AudioFormat, sample_rate: int) -> None:
        """Begin a file for samples of this rate.

        Raises InvalidRequest where the encoder is not installed.
        """
        self.corrections: list[tuple[int, bytes]] = []
        self._header = wav_header(sample_rate) if kind == "wav" else b""
        self._wav_rate = sample_rate if kind == "wav" else None
        self._num_bytes = 0
        target = _target_rate(kind, sample_rate)
        self._resampler = None if target == sample_rate else Resampler(sample_rate, target)
        self._sink = _Sink(self.corrections)
        self._encoder = None
        if kind in _OPTIONS:
            if file_of("soundfile") is None:
                message = f"{kind} needs soundfile (pip install 'mlxctl[audio]'); request wav or pcm"
                raise InvalidRequest(f"response_format {message}", param="response_format")
            self._encoder = _open_encoder(self._sink, kind, target)

    def write(self, samples: bytes) -> bytes:
        """Return what float32 samples add to the file."""
        import numpy as np

        values = np.frombuffer(samples, dtype="<f4")
        return self._encode(values if self._resampler is None else self._resampler.feed(values))

    def close(self) -> bytes:
        """Return the end of the file."""
        rest = b"" if self._resampler is None else self._encode(self._resampler.finish())
        if self._encoder is not None:
            self._encoder.close()
            return rest + self._sink.take()
        if self._wav_rate is not None:
            self.corrections.append((0, wav_header(self._wav_rate, self._num_bytes)))
        return rest + self._take_header()

    def _encode(self, values: Any) -> bytes:
        import numpy as np

        # A model's samples may be slightly beyond the range, and broken weights give NaN.
        values = np.clip(np.nan_to_num(values, posinf=1, neginf=-1), -1, 1)
        if self._encoder is not None:
            self._encoder.write(values)
            return self._sink.take()
        encoded: bytes = (values * 32767).round().astype("<i2").tobytes()
        self._num_bytes += len(encoded)
        return self._take_header() + encoded

    def _take_header(self) -> bytes:
        """Return the header of a WAV file once, b"" of other kinds."""
        header, self._header = self._header, b""
        return header


def wav_header(sample_rate: int, num_bytes: int | None = None) -> bytes:
    """Return the header of a WAV file of 16-bit mono samples.

    Without `num_bytes` of samples the length is unknown.
    """
    data, whole = (
        (_UNKNOWN_BYTES, _UNKNOWN_BYTES)
        if num_bytes is None
        else (num_bytes, num_bytes + _WAV_HEADER_BYTES - 8)
    )
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        *(b"RIFF", whole, b"WAVE", b"fmt ", 16, 1, 1, sample_rate, sample_rate * _SAMPLE_BYTES),
        *(_SAMPLE_BYTES, 8 * _SAMPLE_BYTES, b"data", data),
    )


def _target_rate(kind: AudioFormat, sample_rate: int) -> int:
    if kind == "pcm":
        return PCM_RATE
    rates = _RATES.get(kind)
    return sample_rate if rates is None or sample_rate in rates else _FALLBACK_RATE


def _open_encoder(sink: "_Sink", kind: str, sample_rate: int) -> Any:
    import soundfile

    return soundfile.SoundFile(sink, "w", samplerate=sample_rate, channels=1, **_OPTIONS[kind])


class _Sink:
    """A file in memory that gives away what is written.

    Encoders go back at the end to write lengths into the header, which has left: those become `corrections`.
    """

    def __init__(self, corrections: list[tuple[int, bytes]]) -> None:
        self._corrections = corrections
        self._new = bytearray()
        self._position = self._length = 0

    def take(self) -> bytes:
        """Return what was written since the last call."""
        taken = bytes(self._new)
        self._new.clear()
        return taken

    def write(self, data: Any) -> int:
        chunk = bytes(data)
        num_old = max(0, self._length - self._position)
        if num_old > 0:
            self._corrections.append((self._position, chunk[:num_old]))
        self._new += chunk[num_old:]
        self._position += len(chunk)
        self._length = max(self._length, self._position)
        return len(chunk)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._position = offset + (0, self._position, self._length)[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, _: int = -1) -> bytes:
        return b""
