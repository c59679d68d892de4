"""Sampler: the next token for every row of a batch.

MLX thread only. The order is that of `SamplingParams`, with the grammar's mask after min_tokens, and forced
tokens in place of drawn ones. Repetition penalties are those of Keskar et al. 2019, presence and frequency
penalties those of OpenAI. All in float32. Parameters are arrays, not constants of a compiled function, so new
values cause no compilation.

The draw uses random numbers of the key f(seed, position): a row gets the same token alone, in any batch, and
after a restart. On the device it is the Gumbel-max trick; where the backend says so, the host filters and
draws instead (`host_draw`). A pass that a row does not use leaves its logits bit for bit unchanged.
"""

from collections import abc
from typing import Any

import mlx.core as mx
import numpy as np

from mlxctl.engine.backend import Backend
from mlxctl.engine.sampling.draws import DeviceDraw, Draw, HostDraw
from mlxctl.engine.sampling.filters import XtcFilter, token_filters
from mlxctl.engine.sampling.logit_constraints import LogitConstraints
from mlxctl.engine.sampling.logprobs import log_softmax, scores_of
from mlxctl.engine.sampling.penalties import MinTokens, Penalties, column
from mlxctl.engine.sampling.random_numbers import position_key, uniform_number
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.ir import SamplingParams, ToneCurve

_NO_CURVE = ToneCurve()


class BatchSampler:
    """Sampling parameters of a batch as arrays.

    Rebuilt when rows join or leave; holds no token except in penalty counts.
    """

    def __init__(
        self, rows: abc.Sequence[Sequence], *, inputs: mx.array, vocabulary_size: int, backend: Backend
    ) -> None:
        self._draws_on_host = backend.draws_on_host
        params = [row.sampling for row in rows]
        self._vocabulary_size = vocabulary_size
        self._any_drawn = any(row.temperature > 0 for row in params)
        self._all_drawn = all(row.temperature > 0 for row in params)
        self._is_drawn = mx.array([row.temperature > 0 for row in params])
        self._temperature = column([row.temperature if row.temperature > 0 else 1.0 for row in params])
        self._num_scores = max(
            (row.num_top_logprobs for row in params if row.num_top_logprobs is not None), default=None
        )
        self._bias = _bias(params, vocabulary_size)
        self._penalties = Penalties.of(rows, inputs, vocabulary_size)
        self._min_tokens = MinTokens.of(rows, vocabulary_size)
        self._tone_curves = ToneCurves.of(params)
        self._filters = token_filters(params, vocabulary_size)
        self._xtc = XtcFilter.of(params)

    def sample(
        self, logits: mx.array, rows: abc.Sequence[Sequence], constraints: LogitConstraints | None = None
    ) -> Draw:
        """Return the next token of every row, and requested scores.

        `logits` is (B, V), any float type.
        """
        raw = logits.astype(mx.float32)
        processed = self._process(raw, rows, constraints)
        forced = constraints.forced if constraints is not None else None
        draw = (
            HostDraw(raw, processed, rows, forced)
            if self._draws_on_host
            else self._draw_on_device(raw, processed, rows, forced)
        )
        if self._penalties is not None:
            self._penalties.add(draw.tokens)
        return draw

    def _draw_on_device(
        self, raw: mx.array, processed: mx.array, rows: abc.Sequence[Sequence], forced: list[int] | None
    ) -> DeviceDraw:
        tokens = self._drawn_tokens(processed, rows) if self._any_drawn else mx.argmax(processed, axis=-1)
        tokens = tokens.astype(mx.uint32)
        if forced is not None:
            forced_ids = mx.array(forced, dtype=mx.int32)
            tokens = mx.where(forced_ids >= 0, forced_ids.astype(mx.uint32), tokens)
        scores = None if self._num_scores is None else scores_of(raw, tokens, self._num_scores)
        return DeviceDraw(tokens, scores, [row.sampling.num_top_logprobs for row in rows])

    @property
    def token_counts(self) -> mx.array | None:
        """Counts of sampled tokens (B, V), None without penalties."""
        return None if self._penalties is None else self._penalties.counts

    @token_counts.setter
    def token_counts(self, counts: mx.array) -> None:
        assert self._penalties is not None, "only penalties count tokens"
        self._penalties.counts = counts

    def _process(
        self, raw: mx.array, rows: abc.Sequence[Sequence], constraints: LogitConstraints | None
    ) -> mx.array:
        processed = raw
        if self._penalties is not None:
            processed = self._penalties.apply(processed)
        if constraints is not None and constraints.penalties:
            places = mx.array(constraints.penalized), mx.array(constraints.penalized_ids)
            processed = processed.at[places].add(-mx.array(constraints.penalties, dtype=mx.float32))
        if self._bias is not None:
            processed = processed + self._bias
        if self._min_tokens is not None:
            processed = self._min_tokens.apply(processed, rows)
        return (
            processed
            if constraints is None or constraints.masks is None
            else _masked(processed, constraints.masked, constraints.masks)
        )

    def _drawn_tokens(self, processed: mx.array, rows: abc.Sequence[Sequence]) -> mx.array:
        kept = processed / self._temperature
        if self._tone_curves is not None:
            kept = self._tone_curves.apply(processed, self._temperature, kept)
        for token_filter in self._filters:
            kept = token_filter.apply(kept)
        if self._xtc is not None:
            kept = self._xtc.apply(
                kept, lambda index: uniform_number(rows[index].sampling.seed, rows[index].num_sampled_tokens)
            )
        keys = mx.array(
            [position_key(row.sampling.seed, row.num_sampled_tokens) for row in rows], dtype=mx.uint32
        )
        noise = mx.vmap(lambda key: mx.random.gumbel((self._vocabulary_size,), key=key))(keys)
        drawn = mx.argmax(kept + noise, axis=-1)
        return drawn if self._all_drawn else mx.where(self._is_drawn, drawn, mx.argmax(processed, axis=-1))


def _masked(logits: mx.array, rows: list[int], words: Any) -> mx.array:
    """Return the logits with -inf where a masked row's bit is 0.

    PERF: rows without a mask are not computed.
    """
    bits = (mx.array(words)[:, :, None] >> mx.arange(32, dtype=mx.int32)) & 1
    allowed = bits.reshape(len(rows), -1)[:, : logits.shape[-1]] != 0
    if len(rows) == logits.shape[0]:
        return mx.where(allowed, logits, -mx.inf)
    places = mx.array(rows)
    # A new array: the assignment would change the logits that the scores need.
    result = mx.array(logits)
    result[places] = mx.where(allowed, logits[places], -mx.inf)
    return result


def _bias(params: abc.Sequence[SamplingParams], vocabulary_size: int) -> mx.array | None:
    if not any(row.logit_bias for row in params):
        return None
    bias: Any = np.zeros((len(params), vocabulary_size), dtype=np.float32)
    for index, row in enumerate(params):
        for token_id, value in row.logit_bias.items():
            bias[index, int(token_id)] = value
    return mx.array(bias)


class ToneCurves:
    """Transforms log-probabilities l by the Hybrid Log-Gamma transfer function.

    z = l - (max l - pivot_offset); g(z) = z within +-width, width + shoulder ln(1 + (z - width) / shoulder)
    above, and likewise with the toe below; the result is divided by the temperature. The order of tokens
    never changes.
    """

    def __init__(self, params: abc.Sequence[SamplingParams]) -> None:
        curves = [row.tone_curve or _NO_CURVE for row in params]
        self._used = mx.array([row.tone_curve is not None for row in params])[:, None]
        self._width = column([curve.width for curve in curves])
        self._shoulder = column([curve.shoulder for curve in curves])
        self._toe = column([curve.toe for curve in curves])
        self._pivot_offset = column([curve.pivot_offset for curve in curves])

    @classmethod
    def of(cls, params: abc.Sequence[SamplingParams]) -> "ToneCurves | None":
        """Return the curves of the rows, None if no row has one."""
        return (
            cls(params) if any(row.tone_curve is not None and row.temperature > 0 for row in params) else None
        )

    def apply(self, logits: mx.array, temperature: mx.array, tempered: mx.array) -> mx.array:
        """Return transformed logits for rows with a curve, `tempered` ones for others.

        `temperature` is (B, 1).
        """
        logprobs = log_softmax(logits)
        z = logprobs - (mx.max(logprobs, axis=-1, keepdims=True) - self._pivot_offset)
        # Arguments of the branch not used are clipped, so that no logarithm of a negative number is taken.
        shoulder = self._width + self._shoulder * mx.log1p(mx.maximum(z - self._width, 0.0) / self._shoulder)
        toe = -self._width - self._toe * mx.log1p(mx.maximum(-z - self._width, 0.0) / self._toe)
        curved = mx.where(z > self._width, shoulder, mx.where(z < -self._width, toe, z)) / temperature
        return mx.where(self._used, mx.where(logits == -mx.inf, -mx.inf, curved), tempered)
