"""Penalties for repeated tokens, and min_tokens. MLX thread only."""

from collections import abc
from typing import Any

import mlx.core as mx
import numpy as np

from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.ir import SamplingParams


def column(values: list[float]) -> mx.array:
    """Return one float32 value for each row, (B, 1)."""
    return mx.array(values, dtype=mx.float32)[:, None]


class Penalties:
    """Token counts of each row on the device, and their penalties.

    `counts` (B, V) are of the sampled tokens. Presence and frequency penalties use them alone, as in OpenAI's
    API and vLLM. The repetition penalty also counts the prompt, as in Hugging Face, mlx-lm and vLLM:
    `in_prompt` (B, V) says which tokens the prompts contain, None without such a penalty.
    """

    def __init__(
        self, params: abc.Sequence[SamplingParams], counts: mx.array, in_prompt: mx.array | None
    ) -> None:
        self.counts = counts
        self._in_prompt = in_prompt
        self._repetition = column([row.repetition_penalty for row in params])
        self._presence = column([row.presence_penalty for row in params])
        self._frequency = column([row.frequency_penalty for row in params])

    @classmethod
    def of(cls, rows: abc.Sequence[Sequence], inputs: mx.array, vocabulary_size: int) -> "Penalties | None":
        """Return the penalties of the rows, None if no row uses one.

        `inputs` (B,) are the last tokens, which may be in flight.
        """
        params = [row.sampling for row in rows]
        if not any(_is_penalized(row) for row in params):
            return None
        counts: Any = np.zeros((len(rows), vocabulary_size), dtype=np.float32)
        for index, row in enumerate(rows):
            if _is_penalized(row.sampling):
                np.add.at(counts[index], row.output_token_ids, 1)
        penalties = cls(params, mx.array(counts), _tokens_of_prompts(rows, vocabulary_size))
        # A token in flight counts, though the host has not read it yet.
        in_flight = mx.array([row.has_token_in_flight for row in rows])
        penalties._add(inputs, in_flight.astype(mx.float32))
        return penalties

    def apply(self, logits: mx.array) -> mx.array:
        """Return the logits after repetition, presence and frequency penalties."""
        is_generated = self.counts > 0
        if self._in_prompt is not None:
            repeated = mx.where(logits > 0, logits / self._repetition, logits * self._repetition)
            is_repeated = (is_generated | self._in_prompt) & (self._repetition != 1)
            logits = mx.where(is_repeated, repeated, logits)
        return logits - self.counts * self._frequency - is_generated.astype(mx.float32) * self._presence

    def add(self, tokens: mx.array) -> None:
        """Add sampled tokens to the counts."""
        self._add(tokens, mx.ones(tokens.shape, dtype=mx.float32))

    def _add(self, tokens: mx.array, amounts: mx.array) -> None:
        self.counts = self.counts.at[mx.arange(tokens.shape[0]), tokens].add(amounts)


def _tokens_of_prompts(rows: abc.Sequence[Sequence], vocabulary_size: int) -> mx.array | None:
    """Return which tokens (B, V) the prompts contain.

    Only for rows with a repetition penalty; None if no row has one.
    """
    if all(row.sampling.repetition_penalty == 1 for row in rows):
        return None
    found: Any = np.zeros((len(rows), vocabulary_size), dtype=bool)
    for index, row in enumerate(rows):
        if row.sampling.repetition_penalty != 1:
            ids = np.asarray(row.prompt_token_ids)
            found[index, ids[ids < vocabulary_size]] = True
    return mx.array(found)


def _is_penalized(params: SamplingParams) -> bool:
    return params.repetition_penalty != 1 or params.presence_penalty != 0 or params.frequency_penalty != 0


class MinTokens:
    """Bans stop tokens before a row has `min_tokens` tokens."""

    def __init__(self, bans: mx.array) -> None:
        self._bans = bans

    @classmethod
    def of(cls, rows: abc.Sequence[Sequence], vocabulary_size: int) -> "MinTokens | None":
        """Return the bans of the rows, None if none is needed."""
        if not any(map(_is_early, rows)):
            return None
        bans: Any = np.zeros((len(rows), vocabulary_size), dtype=bool)
        for index, row in enumerate(rows):
            bans[index, sorted(row.stop_token_ids)] = True
        return cls(mx.array(bans))

    def apply(self, logits: mx.array, rows: abc.Sequence[Sequence]) -> mx.array:
        """Return the logits without stop tokens in rows below `min_tokens`."""
        early = [_is_early(row) for row in rows]
        return mx.where(self._bans & mx.array(early)[:, None], -mx.inf, logits) if any(early) else logits


def _is_early(row: Sequence) -> bool:
    return row.num_sampled_tokens < row.sampling.min_tokens
