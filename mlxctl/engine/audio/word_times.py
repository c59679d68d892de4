"""Times of Whisper's tokens by its cross-attention (arXiv:2212.04356, `word_timestamps` of the reference).

The text is read once more; where its tokens attend to the audio, dynamic time warping finds the cheapest way
through text and audio. MLX thread only.
"""

from collections.abc import Generator, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from mlxctl.engine.audio.transcription_model import in_thread
from mlxctl.ir.transcription import SAMPLE_RATE, STEP_SAMPLES

# Of the reference.
_MEDIAN_WIDTH = 7
_STEP_SECONDS = STEP_SAMPLES / SAMPLE_RATE


def token_times(
    model: Any,
    states: mx.array,
    *,
    before: Sequence[int],
    text: Sequence[int],
    end: int,
    heads: Sequence[Sequence[int]],
    num_steps: int,
) -> Generator[None, None, list[float]]:
    """Return where each token of a text begins, in seconds.

    The last time is the end of the last token.
    `before` is the prompt up to the token for text without timestamps, `states` are those of the encoder, of
    which `num_steps` belong to audio. Units are the pass over the text, the weights, and the warping.
    """
    _, _, attention = model.decoder(mx.array([[*before, *text, end]]), states)
    chosen = [attention[layer][0, head] for layer, head in heads or _later_heads(attention)]
    weights = mx.stack(chosen)[:, :, :num_steps]
    mx.eval(weights)
    yield
    weights = mx.softmax(weights, axis=-1, precise=True).astype(mx.float32)
    deviation = mx.var(weights, axis=-2, keepdims=True).sqrt()
    # A step that every token attends to alike says nothing; the reference divides by 0 there.
    centered = weights - weights.mean(axis=-2, keepdims=True)
    weights = mx.where(deviation > 0, centered / deviation, 0)
    costs: Any = np.array(-_median(weights).mean(axis=0)[len(before) - 1 : -1])
    yield
    tokens, steps = yield from in_thread(lambda: cheapest_path(costs))
    begins = np.diff(tokens, prepend=-1).astype(bool)
    return [float(step) * _STEP_SECONDS for step in steps[begins]]


def _later_heads(attention: Sequence[mx.array]) -> list[tuple[int, int]]:
    """Return all heads of the later half of the layers.

    The reference uses them where there is no list.
    """
    num_layers, num_heads = len(attention), attention[0].shape[1]
    return [(layer, head) for layer in range(num_layers // 2, num_layers) for head in range(num_heads)]


def _median(weights: mx.array) -> mx.array:
    """Return the moving median over the last axis, reflected at its ends."""
    side, size = _MEDIAN_WIDTH // 2, weights.shape[-1]
    if size <= side:
        return weights
    order = np.pad(np.arange(size), side, mode="reflect")
    shifted = [weights[..., mx.array(order[shift : shift + size])] for shift in range(_MEDIAN_WIDTH)]
    return mx.sort(mx.stack(shifted), axis=0)[side]


def cheapest_path(costs: Any) -> tuple[Any, Any]:
    """Return rows and columns of the cheapest monotonic path.

    `costs` are an array (rows, columns).
    PERF: by anti-diagonals, whose entries do not depend on each other and lie `columns` apart in memory.
    200 rows and 1,500 columns take 0.2 s on one x86 core; one entry after the other takes 0.5 s.
    """
    rows, columns = costs.shape
    price: Any = np.zeros((rows + 1, columns + 1), np.float32)
    price[1:, 1:] = costs
    total: Any = np.full((rows + 1, columns + 1), np.inf, np.float32)
    total[0, 0] = 0
    came_from: Any = np.full((rows + 1, columns + 1), 2, np.int8)
    prices, totals, origins = price.reshape(-1), total.reshape(-1), came_from.reshape(-1)
    for diagonal in range(2, rows + columns + 1):
        first, last = max(1, diagonal - columns), min(rows, diagonal - 1)
        start, end = first * columns + diagonal, last * columns + diagonal + 1
        here, back = slice(start, end, columns), columns + 1
        both = totals[start - back - 1 : end - back - 1 : columns]
        up, left = totals[start - back : end - back : columns], totals[start - 1 : end - 1 : columns]
        is_both, is_up = (both < up) & (both < left), (up < both) & (up < left)
        origins[here] = np.where(is_both, 0, np.where(is_up, 1, 2))
        totals[here] = prices[here] + np.where(is_both, both, np.where(is_up, up, left))
    came_from[:, 0] = 1
    came_from[0, :] = 2
    path: list[tuple[int, int]] = []
    at_row, at_column = rows, columns
    while at_row > 0 or at_column > 0:
        path.append((at_row - 1, at_column - 1))
        step = int(came_from[at_row, at_column])
        at_row, at_column = at_row - (step != 2), at_column - (step != 1)
    found: Any = np.array(path[::-1])
    return found[:, 0], found[:, 1]
