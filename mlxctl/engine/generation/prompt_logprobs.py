"""Log-probabilities of a prompt's own tokens. MLX thread only."""

from typing import Any

import mlx.core as mx

from mlxctl.engine.generation.caches import Caches, Tokens, arrays
from mlxctl.engine.sampling.logprobs import scores_of
from mlxctl.engine.wire.reports import Score

# PERF: the logits of a whole prompt may be larger than the weights. Those of a piece take so much, and what
# is made of them a few times that.
_LOGITS_BYTES = 64 * 1024 * 1024


def score_prompt(
    model: Any, caches: Caches, tokens: Tokens, *, num_top: int, vocabulary_size: int
) -> list[Score]:
    """Return the scores of all `tokens` but the first.

    Runs all but the last through the model.
    """
    scores: list[Score] = []
    num_at_once = max(1, _LOGITS_BYTES // (4 * vocabulary_size))
    for start in range(0, len(tokens) - 1, num_at_once):
        read = tokens[start : min(start + num_at_once, len(tokens) - 1)]
        logits = model(mx.array(read)[None], cache=caches)[0].astype(mx.float32)
        found = scores_of(logits, mx.array(tokens[start + 1 : start + 1 + len(read)]), num_top)
        mx.eval(*found.arrays(), *arrays(caches))
        scores += [score for score in found.read([num_top] * len(read)) if score is not None]
    return scores
