"""Voice activity detection by levels. Pure.

Only levels are compared: speech, music and noises count alike. Parts of steady sound up to -35 dBFS hold no
speech.
"""

import math
from collections.abc import Sequence
from typing import Any

from mlxctl.ir.transcription import SAMPLE_RATE

FRAME_SAMPLES = SAMPLE_RATE // 40
"""Samples of a frame: 25 ms."""

_SILENCE_DB = 100
"""Level of digital silence below full scale; lower levels count as this one."""

# Speech has pauses between words and syllables: its loud frames exceed the tenth part of the quietest ones by
# 15 dB and more, those of hiss or hum by 1 dB. Measured with espeak's voice, clean and in white noise.
_ABOVE_BACKGROUND_DB = 6
_QUIETEST_SPEECH_DB = -60
# Louder frames always count: what has no pauses may be music.
_ALWAYS_LOUD_DB = -35
_BACKGROUND_PERCENTILE = 10
_MIN_PAUSE_FRAMES = 80
# Consonants at the borders of a part are quiet.
_MARGIN_FRAMES = 12


def frame_levels(samples: Any, frame_samples: int = FRAME_SAMPLES) -> bytes:
    """Return a level for each whole frame of int16 samples.

    A level is decibels above -100 dBFS.
    """
    import numpy as np

    frames: Any = samples[: len(samples) // frame_samples * frame_samples].reshape(-1, frame_samples)
    power = np.square(frames.astype(np.float32) / 32768).mean(axis=1)
    decibels = 10 * np.log10(np.maximum(power, 10 ** (-_SILENCE_DB / 10))) + _SILENCE_DB
    data: bytes = np.rint(decibels).astype(np.uint8).tobytes()
    return data


def loud_parts(levels: bytes, *, num_samples: int) -> tuple[tuple[int, int], ...]:
    """Return first and last sample of each part that may hold speech.

    Pauses shorter than two seconds belong to a part.
    """
    import numpy as np

    decibels: Any = np.frombuffer(levels, np.uint8).astype(np.int16) - _SILENCE_DB
    if not len(decibels):
        return ((0, num_samples),)
    background = np.percentile(decibels, _BACKGROUND_PERCENTILE)
    threshold = min(max(background + _ABOVE_BACKGROUND_DB, _QUIETEST_SPEECH_DB), _ALWAYS_LOUD_DB)
    loud = np.flatnonzero(decibels >= threshold)
    if not len(loud):
        return ()
    borders = np.flatnonzero(np.diff(loud) > _MIN_PAUSE_FRAMES)
    firsts, lasts = loud[[0, *(borders + 1)]], loud[[*borders, len(loud) - 1]]
    return tuple(
        (
            max(0, int(first) - _MARGIN_FRAMES) * FRAME_SAMPLES,
            min(num_samples, (int(last) + 1 + _MARGIN_FRAMES) * FRAME_SAMPLES),
        )
        for first, last in zip(firsts, lasts, strict=True)
    )


def quietest_moment(samples: Any, first: int, last: int) -> int:
    """Return the middle of the quietest frames between two samples.

    A cut there is unlikely to divide a word: frames of 25 ms are compared with both neighbors.
    """
    import numpy as np

    levels: Any = np.frombuffer(frame_levels(samples[first:last]), np.uint8).astype(np.int16)
    if not len(levels):
        return last
    smooth = np.convolve(np.pad(levels, 1, mode="edge"), np.ones(3), mode="valid")
    # Of equally quiet frames, the one in the middle of the longest run.
    quiet = np.flatnonzero(smooth == smooth.min())
    runs = np.split(quiet, np.flatnonzero(np.diff(quiet) > 1) + 1)
    longest: Sequence[int] = max(runs, key=len)
    return first + math.floor((longest[len(longest) // 2] + 0.5) * FRAME_SAMPLES)
