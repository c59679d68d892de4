"""Log-probabilities of sampled and of prompt tokens. MLX thread only.

They are computed from the raw logits, before penalties and temperature, in float32.
"""

from collections import abc
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np

from mlxctl.engine.wire.reports import Score

# About the square root of a large vocabulary, so that both sums are short.
_SUM_TOKENS = 512


@dataclass(frozen=True, slots=True)
class ScoresInFlight:
    """Unread log-probabilities of B tokens, float32.

    `chosen` (B,) are those of the tokens, `top_logprobs` (B, n) the highest ones, unsorted.
    """

    chosen: mx.array
    top_ids: mx.array | None
    top_logprobs: mx.array | None

    def arrays(self) -> list[mx.array]:
        """Return the arrays to evaluate."""
        return [array for array in (self.chosen, self.top_ids, self.top_logprobs) if array is not None]

    def read(self, num_wanted: abc.Sequence[int | None]) -> list[Score | None]:
        """Wait for the device and return a score for each token.

        `num_wanted` is the number of top log-probabilities of each; None for no score.
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
    """Return lazily the scores of tokens (B,).

    `raw` are their logits (B, V), float32; `num_top` is the number of top log-probabilities.
    """
    logprobs = log_softmax(raw)
    chosen = mx.take_along_axis(logprobs, tokens[:, None], axis=-1)[:, 0]
    if num_top == 0:
        return ScoresInFlight(chosen, None, None)
    num_top = min(num_top, logprobs.shape[-1] - 1)
    ids = mx.argpartition(-logprobs, kth=num_top - 1, axis=-1)[:, :num_top]
    return ScoresInFlight(chosen, ids, mx.take_along_axis(logprobs, ids, axis=-1))


def log_softmax(raw: mx.array) -> mx.array:
    """Return the log-probabilities of logits (B, V), float32.

    MLX's CPU backend adds up a whole row in order, which is off by 4e-4 for 152,000 equal logits; sums of
    sums stay within 2e-6.
    """
    relative = raw - mx.max(raw, axis=-1, keepdims=True)
    weights = mx.exp(relative)
    num_whole = raw.shape[-1] // _SUM_TOKENS * _SUM_TOKENS
    sums = weights[:, :num_whole].reshape(raw.shape[0], -1, _SUM_TOKENS).sum(axis=-1).sum(axis=-1)
    rest = weights[:, num_whole:].sum(axis=-1)
    return relative - mx.log(sums + rest)[:, None]


def score_of(raw: "np.ndarray[Any, np.dtype[np.float32]]", token_id: int, num_top: int) -> Score:
    """Return the score of a token, computed on the host.

    `raw` are its logits (V,).
    """
    relative = raw - raw.max()
    normalizer = float(np.log(np.exp(relative).sum(dtype=np.float64)))
    num_top = min(num_top, relative.size - 1)
    ids = np.argpartition(relative, relative.size - num_top)[relative.size - num_top :] if num_top else ()
    top = [(int(top_id), float(relative[top_id]) - normalizer) for top_id in ids]
    return Score(float(relative[token_id]) - normalizer, sorted(top, key=lambda pair: (-pair[1], pair[0])))
