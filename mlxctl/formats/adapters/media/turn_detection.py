"""Finds where turns begin and end in audio that comes in parts.

Only levels are compared, as in `voice_activity`: a loud noise counts like speech, steady noise does not.
"""

from collections import deque
from dataclasses import dataclass

from mlxctl.formats.adapters.media.voice_activity import frame_levels

_FRAMES_A_SECOND = 40
_SAMPLE_BYTES = 2
# Levels are decibels above -100 dBFS. Frames of speech exceed the background by `_ABOVE_DB` and are not
# quieter than `_QUIETEST`; both grow with the threshold of OpenAI's API, by the other figures for 1.
_ABOVE_DB, _ABOVE_DB_MORE = 6, 12
_QUIETEST, _QUIETEST_MORE = 40, 20
# The background is the tenth part of the quietest frames of the last ten seconds. Nothing is decided before
# half a second is known.
_HISTORY_FRAMES = 10 * _FRAMES_A_SECOND
_ENOUGH_FRAMES = _FRAMES_A_SECOND // 2
_BACKGROUND_PART = 10
_FRAMES_A_BACKGROUND = 4
# Speech begins with four loud frames of six: a click is shorter.
_WINDOW_FRAMES, _LOUD_FRAMES = 6, 4


@dataclass(frozen=True, slots=True)
class Border:
    """A turn begins or ends at this sample of all."""

    begins: bool
    sample: int


class TurnDetector:
    """Finds turns in 16-bit mono samples of this rate.

    `threshold` is between 0 and 1. A turn ends after `silence_ms`, which belong to it. Slow: for workers.
    """

    def __init__(self, rate: int, *, threshold: float, silence_ms: int) -> None:
        self._frame_samples = rate // _FRAMES_A_SECOND
        self._above = _ABOVE_DB + _ABOVE_DB_MORE * threshold
        self._quietest = _QUIETEST + _QUIETEST_MORE * threshold
        self._silence_frames = max(1, silence_ms * _FRAMES_A_SECOND // 1000)
        self._rest = b""
        self._num_frames = 0
        self._history: deque[int] = deque(maxlen=_HISTORY_FRAMES)
        self._limit = self._quietest
        self._window: deque[bool] = deque(maxlen=_WINDOW_FRAMES)
        self._in_turn = False
        self._num_silent = 0

    def feed(self, samples: bytes) -> list[Border]:
        """Return the borders that these samples complete."""
        import numpy as np

        data = self._rest + samples
        num_bytes = len(data) // (self._frame_samples * _SAMPLE_BYTES) * self._frame_samples * _SAMPLE_BYTES
        self._rest = data[num_bytes:]
        levels = frame_levels(np.frombuffer(data[:num_bytes], "<i2"), self._frame_samples)
        return [border for level in levels for border in self._next(level)]

    def end_turn(self) -> None:
        """The turn has ended for another reason than silence."""
        self._in_turn = False
        self._window.clear()

    def _next(self, level: int) -> list[Border]:
        self._history.append(level)
        num_known = len(self._history)
        if num_known < _ENOUGH_FRAMES:
            return []
        is_first = num_known == _ENOUGH_FRAMES and not self._num_frames
        if is_first or self._num_frames % _FRAMES_A_BACKGROUND == 0:
            background = sorted(self._history)[num_known // _BACKGROUND_PART]
            self._limit = max(background + self._above, self._quietest)
        borders = map(self._decide, self._history if is_first else (level,))
        return [border for border in borders if border is not None]

    def _decide(self, level: int) -> Border | None:
        self._num_frames += 1
        is_loud = level >= self._limit
        if self._in_turn:
            self._num_silent = 0 if is_loud else self._num_silent + 1
            if self._num_silent < self._silence_frames:
                return None
            self.end_turn()
            return Border(begins=False, sample=self._num_frames * self._frame_samples)
        self._window.append(is_loud)
        if sum(self._window) < _LOUD_FRAMES:
            return None
        self._in_turn, self._num_silent = True, 0
        first = self._num_frames - len(self._window) + self._window.index(True)
        return Border(begins=True, sample=first * self._frame_samples)
