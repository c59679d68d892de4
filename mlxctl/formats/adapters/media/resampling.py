"""Changes the sample rate of audio that comes in parts."""

from math import gcd
from typing import Any

# Zero crossings of the filter on each side: with this window the aliases of speech are below -60 dB.
_HALF_WIDTH = 16
_KAISER_BETA = 8.0
# Outputs that are computed at once, each from one row of the filter's length.
_BLOCK = 8192


class Resampler:
    """A windowed-sinc filter, with one row of weights for each fractional position.

    The samples of all parts together are those of the whole audio.
    """

    def __init__(self, source_rate: int, target_rate: int) -> None:
        import numpy as np

        common = gcd(source_rate, target_rate)
        self._up, self._down = target_rate // common, source_rate // common
        # Frequencies above half of the lower rate are removed.
        cutoff = min(1.0, self._up / self._down)
        self._reach = int(np.ceil(_HALF_WIDTH / cutoff))
        offsets = np.arange(-self._reach + 1, self._reach + 1)
        distance = offsets[None, :] - np.arange(self._up)[:, None] / self._up
        inside = np.clip(1 - (distance / self._reach) ** 2, 0, None)
        window = np.i0(_KAISER_BETA * np.sqrt(inside))
        weights = cutoff * np.sinc(cutoff * distance) * window
        self._weights = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
        self._held: Any = np.zeros(self._reach - 1, dtype=np.float32)
        # Position of the next output in the held samples: whole samples, and `up`-ths of one.
        self._next = 0
        self._phase = 0
        self._num_in = self._num_out = 0

    def feed(self, samples: Any) -> Any:
        """Return the outputs that these samples complete."""
        import numpy as np

        self._num_in += len(samples)
        self._held = np.concatenate((self._held, samples))
        return self._compute()

    def finish(self) -> Any:
        """Return the last outputs: the audio is followed by silence."""
        import numpy as np

        self._held = np.concatenate((self._held, np.zeros(2 * self._reach, dtype=np.float32)))
        num_left = -(-self._num_in * self._up // self._down) - self._num_out
        return self._compute()[:num_left]

    def _compute(self) -> Any:
        import numpy as np

        width = 2 * self._reach
        parts = []
        while len(self._held) - width - self._next >= 0:
            steps: Any = self._phase + self._down * np.arange(_BLOCK)
            rows: Any = self._next + steps // self._up
            phases: Any = steps % self._up
            num = int(np.searchsorted(rows, len(self._held) - width, side="right"))
            windows = np.lib.stride_tricks.sliding_window_view(self._held, width)[rows[:num]]
            parts.append(np.einsum("nw,nw->n", windows, self._weights[phases[:num]]))
            position = self._phase + self._down * num
            self._next, self._phase = self._next + position // self._up, position % self._up
            kept = min(self._next, len(self._held))
            self._held, self._next = self._held[kept:], self._next - kept
        outputs = np.concatenate(parts) if parts else np.zeros(0, dtype=np.float32)
        self._num_out += len(outputs)
        return outputs
