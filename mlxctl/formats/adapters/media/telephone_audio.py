"""Audio of telephones, G.711, from and to the samples of realtime sessions.

A byte is a sample, 8,000 a second: the logarithm of a 14-bit (μ-law) or 13-bit (A-law) sample, as a sign, one
of eight segments, and one of 16 steps.
"""

from typing import Any

from mlxctl.formats.adapters.media.resampling import Resampler
from mlxctl.ir.audio_format import PCM_RATE, Law

TELEPHONE_RATE = 8000
"""Samples, and bytes, a second."""
PCM_BYTES = 2 * PCM_RATE // TELEPHONE_RATE
"""Bytes of 24 kHz samples for each byte."""

_HIGHEST = 32767
# μ-law adds this to a 14-bit magnitude, so that each segment is twice as long as the one before.
_BIAS = 33
_MAX_MU = 8158
# A-law inverts every other bit.
_ALTERNATE = 0x55


class TelephoneDecoder:
    """Bytes that come in parts become 16-bit samples, little-endian."""

    def __init__(self, law: Law) -> None:
        import numpy as np

        codes: Any = np.arange(256)
        self._levels = (_mu_levels(codes) if law == "audio/pcmu" else _a_levels(codes)).astype(np.float32)
        self._resampler = Resampler(TELEPHONE_RATE, PCM_RATE)

    def feed(self, data: bytes) -> bytes:
        """Return the samples that are complete.

        The last two milliseconds come with the next part.
        """
        import numpy as np

        return _samples(self._resampler.feed(self._levels[np.frombuffer(data, np.uint8)]))

    def finish(self) -> bytes:
        """Return the last samples."""
        return _samples(self._resampler.finish())


class TelephoneEncoder:
    """16-bit samples that come in parts become bytes."""

    def __init__(self, law: Law) -> None:
        self._codes = _mu_codes if law == "audio/pcmu" else _a_codes
        self._resampler = Resampler(PCM_RATE, TELEPHONE_RATE)

    def feed(self, samples: bytes) -> bytes:
        """Return the bytes that are complete."""
        import numpy as np

        return self._bytes(self._resampler.feed(np.frombuffer(samples, "<i2").astype(np.float32)))

    def finish(self) -> bytes:
        """Return the last bytes."""
        return self._bytes(self._resampler.finish())

    def _bytes(self, values: Any) -> bytes:
        import numpy as np

        codes: Any = self._codes(np.rint(values).clip(-_HIGHEST - 1, _HIGHEST).astype(np.int32))
        return bytes(codes.astype(np.uint8))


def _samples(values: Any) -> bytes:
    import numpy as np

    return bytes(np.rint(values).clip(-_HIGHEST - 1, _HIGHEST).astype("<i2").tobytes())


def _mu_levels(codes: Any) -> Any:
    """Return the 16-bit values of μ-law bytes."""
    import numpy as np

    plain = ~codes & 0xFF
    magnitudes = ((2 * (plain & 15) + _BIAS) << (plain >> 4 & 7)) - _BIAS
    return np.where(plain & 0x80, -magnitudes, magnitudes) << 2


def _mu_codes(samples: Any) -> Any:
    """Return the μ-law bytes of 16-bit values."""
    import numpy as np

    short = samples >> 2
    magnitudes = np.minimum(abs(short), _MAX_MU) + _BIAS
    segments = np.frexp(magnitudes)[1] - 6
    codes = segments << 4 | (magnitudes >> segments + 1) & 15
    return codes ^ np.where(short < 0, 0x7F, 0xFF)


def _a_levels(codes: Any) -> Any:
    """Return the 16-bit values of A-law bytes."""
    import numpy as np

    plain = codes ^ _ALTERNATE
    segments, steps = plain >> 4 & 7, 2 * (plain & 15) + 1
    magnitudes = np.where(segments, steps + 32 << np.maximum(segments, 1) - 1, steps)
    return np.where(plain & 0x80, magnitudes, -magnitudes) << 3


def _a_codes(samples: Any) -> Any:
    """Return the A-law bytes of 16-bit values."""
    import numpy as np

    short = samples >> 3
    magnitudes = np.where(short < 0, ~short, short)
    segments = np.maximum(np.frexp(magnitudes)[1] - 5, 0)
    codes = segments << 4 | (magnitudes >> np.maximum(segments, 1)) & 15
    return codes ^ np.where(short < 0, _ALTERNATE, _ALTERNATE | 0x80)
