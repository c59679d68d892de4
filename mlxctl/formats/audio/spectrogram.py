"""Logarithmic mel spectrograms, as feature extractors of transformers compute them.

Samples are 16 kHz. numpy only: no MLX, no transformers; it is imported for the first audio.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

_RATE = 16_000
HOP = 160
"""Samples from one frame to the next."""

# Frames whose spectrum is computed at once: 10 seconds.
_PIECE_FRAMES = 1000
_NUM_FILTERS = 128
# O'Shaughnessy (1987) in HTK; Slaney (1998) is linear below 1 kHz.
_SLANEY_HZ, _SLANEY_STEP, _SLANEY_LOG = 1000.0, 200.0 / 3, math.log(6.4) / 27


def _htk_hz(mel: Any) -> Any:
    return 700.0 * (10.0 ** (mel / 2595.0) - 1.0)


def _htk_mel(hz: float) -> float:
    return 2595.0 * math.log10(1.0 + hz / 700.0)


def _slaney_hz(mel: Any) -> Any:
    import numpy as np

    first = _SLANEY_HZ / _SLANEY_STEP
    return np.where(mel < first, mel * _SLANEY_STEP, _SLANEY_HZ * np.exp(_SLANEY_LOG * (mel - first)))


def _slaney_mel(hz: float) -> float:
    if hz < _SLANEY_HZ:
        return hz / _SLANEY_STEP
    return _SLANEY_HZ / _SLANEY_STEP + math.log(hz / _SLANEY_HZ) / _SLANEY_LOG


@cache
def mel_filters(fft_length: int, lowest: float, highest: float, *, is_slaney: bool = False) -> Any:
    """Return 128 triangular filters (frequencies, filters) between two frequencies in Hz.

    Those of Slaney have equal areas.
    """
    import numpy as np

    to_hz, to_mel = (_slaney_hz, _slaney_mel) if is_slaney else (_htk_hz, _htk_mel)
    corners = to_hz(np.linspace(to_mel(lowest), to_mel(highest), _NUM_FILTERS + 2))
    slopes = corners[None] - np.linspace(0, _RATE / 2, fft_length // 2 + 1)[:, None]
    widths = np.diff(corners)
    filters = np.maximum(0, np.minimum(-slopes[:, :-2] / widths[:-1], slopes[:, 2:] / widths[1:]))
    return filters * (2.0 / (corners[2:] - corners[:-2])) if is_slaney else filters


def hann(length: int) -> Any:
    """Return a periodic Hann window."""
    import numpy as np

    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / length)


def spectra(samples: Any, length: int, transform: Callable[[Any], Any]) -> Any:
    """Return what `transform` makes of all frames (frames, `length`), as float32.

    Frames that extend beyond the samples are left out.
    """
    import numpy as np

    frames = np.lib.stride_tricks.sliding_window_view(samples, length)[::HOP]
    pieces = [
        transform(frames[start : start + _PIECE_FRAMES]).astype(np.float32)
        for start in range(0, len(frames), _PIECE_FRAMES)
    ]
    return np.concatenate(pieces)
