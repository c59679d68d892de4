"""Log-probabilities of a prompt's own tokens. MLX thread only."""

from functools import partial
from typing import Any

import mlx.core as mx

from mlxctl.engine.decoding import caches as kv
from mlxctl.engine.decoding.shared_caches import announced
from mlxctl.engine.generation.prefill_state import PrefillState
from mlxctl.engine.sampling.logprobs import scores_of
from mlxctl.engine.wire.rank_messages import ScoreTokens
from mlxctl.engine.wire.reports import Score

# PERF: the logits of a whole prompt may be larger than the weights, so they are computed in pieces of this
# size. The scores of a piece take a few times as much.
_LOGITS_BYTES = 64 * 1024 * 1024


def score_prompt(
    model: Any, state: PrefillState, caches: kv.Caches, start: int, end: int, vocabulary_size: int
) -> list[Score]:
    """Compute part of a prompt; return the scores of each next token."""
    tokens = state.tokens(start, end + 1)
    num_top = state.sequence.sampling.num_top_logprobs or 0
    num_at_once = max(1, _LOGITS_BYTES // (4 * vocabulary_size))
    scores: list[Score] = []
    for first in range(0, len(tokens) - 1, num_at_once):
        read = tokens[first : min(first + num_at_once, len(tokens) - 1)]
        following = mx.array(tokens[first + 1 : first + 1 + len(read)])
        with announced(caches, partial(_scoring, read.tobytes())):
            logits = model(mx.array(read)[None], cache=caches)[0].astype(mx.float32)
            found = scores_of(logits, following, num_top)
            mx.eval(*found.arrays(), *kv.arrays(caches))
        scores += [score for score in found.read([num_top] * len(read)) if score is not None]
    return scores


def _scoring(tokens: bytes, number: int) -> ScoreTokens:
    return ScoreTokens(caches=number, tokens=tokens)
