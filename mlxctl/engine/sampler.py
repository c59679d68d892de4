"""Choosing the next token for every row of a batch, in one vectorised pass. MLX thread only.

Order: penalties over generated tokens (repetition after Keskar et al. 2019, presence and frequency as OpenAI defines them), logit
bias, temperature, top_k, top_p over what top_k left, min_p, draw. Everything is computed in float32. Parameters are arrays, never
constants of a compiled function, so that a value never seen before costs nothing.

The draw is the Gumbel-max trick with noise from the key f(seed, position): a row gets the same token alone, in any batch, and after
a restart. Which passes run depends on what the rows use; a pass that a row does not use leaves its logits bit for bit unchanged.
"""

from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np

from mlxctl.engine.messages import Score
from mlxctl.engine.sequence import Sequence
from mlxctl.ir import SamplingParams

_MASK_64 = (1 << 64) - 1


def position_key(seed: int, position: int) -> tuple[int, int]:
    """Return the two 32-bit words of the random key for the token at `position`: SplitMix64 of the pair (Steele et al. 2014)."""
    mixed = (seed + (position + 1) * 0x9E3779B97F4A7C15) & _MASK_64
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK_64
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK_64
    mixed ^= mixed >> 31
    return mixed >> 32, mixed & 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class ScoresInFlight:
    """Log-probabilities of one step, float32: of the chosen tokens (B,), and of the likeliest, unsorted, (B, n)."""

    chosen: mx.array
    top_ids: mx.array | None
    top_logprobs: mx.array | None

    def arrays(self) -> list[mx.array]:
        """Return what has to be evaluated."""
        return [array for array in (self.chosen, self.top_ids, self.top_logprobs) if array is not None]

    def read(self, rows: Many[Sequence]) -> list[Score | None]:
        """Wait for the device and return a score for each row that asked."""
        chosen: Any = self.chosen.tolist()
        ids: Any = self.top_ids.tolist() if self.top_ids is not None else None
        logprobs: Any = self.top_logprobs.tolist() if self.top_logprobs is not None else None
        scores: list[Score | None] = []
        for index, row in enumerate(rows):
            wanted = row.sampling.num_top_logprobs
            if wanted is None:
                scores.append(None)
                continue
            top: list[tuple[int, float]] = []
            if wanted and ids is not None and logprobs is not None:
                top = sorted(zip(ids[index], logprobs[index], strict=True), key=lambda pair: (-pair[1], pair[0]))[:wanted]
            scores.append(Score(chosen[index], top))
        return scores


def _column(values: list[float]) -> mx.array:
    return mx.array(values, dtype=mx.float32)[:, None]


class BatchSampler:
    """The sampling parameters of a batch as arrays. Rebuilt when rows join or leave; holds no token beyond penalty counts."""

    def __init__(self, rows: Many[Sequence], *, inputs: mx.array, vocabulary_size: int) -> None:
        params = [row.sampling for row in rows]
        self._vocabulary_size = vocabulary_size
        self._any_drawn = any(row.temperature > 0 for row in params)
        self._all_drawn = all(row.temperature > 0 for row in params)
        self._drawn = mx.array([row.temperature > 0 for row in params])
        self._temperature = _column([row.temperature if row.temperature > 0 else 1.0 for row in params])
        self._num_scores = max((row.num_top_logprobs for row in params if row.num_top_logprobs is not None), default=None)
        self._bias = _bias(params, vocabulary_size)
        self._penalties = _Penalties.of(rows, inputs, vocabulary_size)
        self._cut = _Cut.of(params, vocabulary_size)
        min_p = [row.min_p for row in params]
        # p_i >= min_p * p_max is x_i >= x_max + ln(min_p): no softmax needed, and min_p 0 is -inf.
        self._min_p = _column([float(np.log(value)) if value > 0 else -np.inf for value in min_p]) if any(min_p) else None

    def sample(self, logits: mx.array, rows: Many[Sequence]) -> tuple[mx.array, ScoresInFlight | None]:
        """Return lazily the next token of every row, (B,) uint32, and scores if any row asked. `logits`: (B, V), any float."""
        raw = logits.astype(mx.float32)
        shaped = raw
        if self._penalties is not None:
            shaped = self._penalties.apply(shaped)
        if self._bias is not None:
            shaped = shaped + self._bias
        tokens = self._draw(shaped, rows) if self._any_drawn else mx.argmax(shaped, axis=-1)
        tokens = tokens.astype(mx.uint32)
        if self._penalties is not None:
            self._penalties.count(tokens)
        return tokens, None if self._num_scores is None else _scores(raw, tokens, self._num_scores)

    def _draw(self, shaped: mx.array, rows: Many[Sequence]) -> mx.array:
        tempered = shaped / self._temperature
        kept = tempered
        if self._cut is not None:
            kept = self._cut.apply(kept)
        if self._min_p is not None:
            floor = mx.max(tempered, axis=-1, keepdims=True) + self._min_p
            kept = mx.where(tempered >= floor, kept, -mx.inf)
        keys = mx.array([position_key(row.sampling.seed, row.num_sampled_tokens) for row in rows], dtype=mx.uint32)
        noise = mx.vmap(lambda key: mx.random.gumbel((self._vocabulary_size,), key=key))(keys)
        drawn = mx.argmax(kept + noise, axis=-1)
        return drawn if self._all_drawn else mx.where(self._drawn, drawn, mx.argmax(shaped, axis=-1))


def _bias(params: Many[SamplingParams], vocabulary_size: int) -> mx.array | None:
    if not any(row.logit_bias for row in params):
        return None
    bias: Any = np.zeros((len(params), vocabulary_size), dtype=np.float32)
    for index, row in enumerate(params):
        for token_id, value in row.logit_bias.items():
            bias[index, int(token_id)] = value
    return mx.array(bias)


def _scores(raw: mx.array, tokens: mx.array, num_top: int) -> ScoresInFlight:
    logprobs = raw - mx.logsumexp(raw, axis=-1, keepdims=True)
    chosen = mx.take_along_axis(logprobs, tokens[:, None], axis=-1)[:, 0]
    if num_top == 0:
        return ScoresInFlight(chosen, None, None)
    num_top = min(num_top, logprobs.shape[-1] - 1)
    ids = mx.argpartition(-logprobs, kth=num_top - 1, axis=-1)[:, :num_top]
    return ScoresInFlight(chosen, ids, mx.take_along_axis(logprobs, ids, axis=-1))


class _Cut:
    """top_k and top_p in one sort: the smallest logit that stays, per row."""

    def __init__(self, top_k: mx.array, top_p: mx.array) -> None:
        self._top_k = top_k
        self._top_p = top_p

    @classmethod
    def of(cls, params: Many[SamplingParams], vocabulary_size: int) -> "_Cut | None":
        if not any(row.temperature > 0 and (row.top_k or row.top_p < 1) for row in params):
            return None
        top_k = mx.array([min(row.top_k, vocabulary_size) or vocabulary_size for row in params], dtype=mx.int32)
        # top_p 1 keeps everything, also where the cumulated probabilities round above 1.
        return cls(top_k[:, None], _column([row.top_p if row.top_p < 1 else 2.0 for row in params]))

    def apply(self, logits: mx.array) -> mx.array:
        ordered = -mx.sort(-logits, axis=-1)
        in_top_k = mx.arange(ordered.shape[-1])[None, :] < self._top_k
        probabilities = mx.softmax(mx.where(in_top_k, ordered, -mx.inf), axis=-1)
        before = mx.cumsum(probabilities, axis=-1) - probabilities
        # The most likely token always stays: nothing stands before it.
        stays = in_top_k & (before < self._top_p)
        floor = mx.min(mx.where(stays, ordered, mx.inf), axis=-1, keepdims=True)
        return mx.where(logits >= floor, logits, -mx.inf)


class _Penalties:
    """How often each row has generated each token, on the device, and what that costs."""

    def __init__(self, params: Many[SamplingParams], counts: mx.array) -> None:
        self._counts = counts
        self._repetition = _column([row.repetition_penalty for row in params])
        self._presence = _column([row.presence_penalty for row in params])
        self._frequency = _column([row.frequency_penalty for row in params])

    @classmethod
    def of(cls, rows: Many[Sequence], inputs: mx.array, vocabulary_size: int) -> "_Penalties | None":
        params = [row.sampling for row in rows]
        if not any(_is_penalised(row) for row in params):
            return None
        counts: Any = np.zeros((len(rows), vocabulary_size), dtype=np.float32)
        for index, row in enumerate(rows):
            if _is_penalised(row.sampling):
                np.add.at(counts[index], row.output_token_ids, 1)
        penalties = cls(params, mx.array(counts))
        # A token still in flight is generated, too, though the host has not read it yet.
        in_flight = mx.array([row.has_token_in_flight for row in rows])
        penalties._add(inputs, in_flight.astype(mx.float32))
        return penalties

    def apply(self, logits: mx.array) -> mx.array:
        seen = self._counts > 0
        repeated = mx.where(logits > 0, logits / self._repetition, logits * self._repetition)
        logits = mx.where(seen & (self._repetition != 1), repeated, logits)
        return logits - self._counts * self._frequency - seen.astype(mx.float32) * self._presence

    def count(self, tokens: mx.array) -> None:
        self._add(tokens, mx.ones(tokens.shape, dtype=mx.float32))

    def _add(self, tokens: mx.array, amounts: mx.array) -> None:
        self._counts = self._counts.at[mx.arange(tokens.shape[0]), tokens].add(amounts)


def _is_penalised(params: SamplingParams) -> bool:
    return params.repetition_penalty != 1 or params.presence_penalty != 0 or params.frequency_penalty != 0
