"""Log-probabilities, of tokens that were chosen and of those of a prompt. MLX thread only.

They are those of the raw logits, before penalties and temperature, in float32.
"""

from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from mlxctl.engine.wire.messages import Score


@dataclass(frozen=True, slots=True)
class ScoresInFlight:
    """Log-probabilities at B places, float32: of the tokens that are there (B,), and of the likeliest,
    unsorted, (B, n).
    """

    chosen: mx.array
    top_ids: mx.array | None
    top_logprobs: mx.array | None

    def arrays(self) -> list[mx.array]:
        """Return what has to be evaluated."""
        return [array for array in (self.chosen, self.top_ids, self.top_logprobs) if array is not None]

    def read(self, num_wanted: Many[int | None]) -> list[Score | None]:
        """Wait for the device and return a score with so many of the likeliest for each place, None for one
        that wants none.
        """
        chosen: Any = self.chosen.tolist()
        ids: Any = self.top_ids.tolist() if self.top_ids is not None else None
        logprobs: Any = self.top_logprobs.tolist() if self.top_logprobs is not None else None
        scores: list[Score | None] = []
        for index, wanted in enumerate(num_wanted):
            if wanted is None:
                scores.append(None)
                continue
            top: list[tuple[int, float]] = []
            if wanted and ids is not None and logprobs is not None:
                top = sorted(
                    zip(ids[index], logprobs[index], strict=True), key=lambda pair: (-pair[1], pair[0])
                )[:wanted]
            scores.append(Score(chosen[index], top))
        return scores


def scores_of(raw: mx.array, tokens: mx.array, num_top: int) -> ScoresInFlight:
    """Return lazily what logits, (B, V) in float32, say of the tokens (B,) and of the `num_top` likeliest."""
    logprobs = raw - mx.logsumexp(raw, axis=-1, keepdims=True)
    chosen = mx.take_along_axis(logprobs, tokens[:, None], axis=-1)[:, 0]
    if num_top == 0:
        return ScoresInFlight(chosen, None, None)
    num_top = min(num_top, logprobs.shape[-1] - 1)
    ids = mx.argpartition(-logprobs, kth=num_top - 1, axis=-1)[:, :num_top]
    return ScoresInFlight(chosen, ids, mx.take_along_axis(logprobs, ids, axis=-1))
