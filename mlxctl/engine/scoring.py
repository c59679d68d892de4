"""Log-probabilities, of tokens that were chosen and of those of a prompt. MLX thread only.

They are those of the raw logits, before penalties and temperature, in float32.
"""

from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from mlxctl.engine.caches import Caches, Tokens, arrays
from mlxctl.engine.messages import Score

# PERF: the logits of a whole prompt may be larger than the weights. Those of a piece take so much, and what is made of them a few
# times that.
_LOGITS_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ScoresInFlight:
    """Log-probabilities at B places, float32: of the tokens that are there (B,), and of the likeliest, unsorted, (B, n)."""

    chosen: mx.array
    top_ids: mx.array | None
    top_logprobs: mx.array | None

    def arrays(self) -> list[mx.array]:
        """Return what has to be evaluated."""
        return [array for array in (self.chosen, self.top_ids, self.top_logprobs) if array is not None]

    def read(self, num_wanted: Many[int | None]) -> list[Score | None]:
        """Wait for the device and return a score with so many of the likeliest for each place, None for one that wants none."""
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
                top = sorted(zip(ids[index], logprobs[index], strict=True), key=lambda pair: (-pair[1], pair[0]))[:wanted]
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


def score_prompt(model: Any, caches: Caches, tokens: Tokens, *, num_top: int, vocabulary_size: int) -> list[Score]:
    """Run all `tokens` but the last through the model, piece by piece, and return the score of each but the first."""
    scores: list[Score] = []
    num_at_once = max(1, _LOGITS_BYTES // (4 * vocabulary_size))
    for start in range(0, len(tokens) - 1, num_at_once):
        read = tokens[start : min(start + num_at_once, len(tokens) - 1)]
        logits = model(mx.array(read)[None], cache=caches)[0].astype(mx.float32)
        found = scores_of(logits, mx.array(tokens[start + 1 : start + 1 + len(read)]), num_top)
        mx.eval(*found.arrays(), *arrays(caches))
        scores += [score for score in found.read([num_top] * len(read)) if score is not None]
    return scores
