"""Draft model: a small model drafts for a large one.

Both have the same vocabulary. MLX thread only.
"""

from array import array
from collections import abc
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np

from mlxctl.engine.backend import Backend
from mlxctl.engine.decoding import caches as kv
from mlxctl.engine.sampling.sampler import BatchSampler
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.engine.speculation.draft_caches import DraftCaches
from mlxctl.engine.speculation.policy.drafter import NO_DRAFT, Draft
from mlxctl.prefix_cache.records import grows, leaves

# Prompt tokens that one step may compute for the draft model; rows wait for their next token meanwhile.
_CATCH_UP_TOKENS = 256
# Rows that lack more tokens than this read them alone: in a batch all rows would be padded to as many.
_BATCHED_TOKENS = 16


def draft_model_problem(model: Any) -> str:
    """Return why a model cannot draft, else ""."""
    kinds = {type(layer).__name__ for layer in leaves(kv.new_caches(model)) if not grows(layer)}
    return f"its layers keep their state in a {min(kinds)}, which cannot be taken back" if kinds else ""


def sample_drafts(
    rows: abc.Sequence[Sequence],
    logits: mx.array,
    next_logits: Callable[[mx.array], mx.array],
    *,
    last_tokens: abc.Sequence[int],
    num_tokens: int,
    vocabulary_size: int,
    backend: Backend,
) -> list[list[int]]:
    """Return tokens that the rows' own samplers choose from a drafter's logits.

    Each row gets `num_tokens`. `logits` (B, V) follow `last_tokens`; `next_logits` takes tokens (B,) and
    returns the logits (B, V) after them.
    """
    sampler = BatchSampler(
        rows,
        inputs=mx.array(list(last_tokens)),
        vocabulary_size=vocabulary_size,
        backend=backend,
    )
    chosen: list[mx.array] = []
    try:
        while True:
            draw = sampler.sample(_resized(logits, vocabulary_size), rows)
            draw.finish()
            chosen.append(draw.tokens)
            for row in rows:
                row.num_sampled_tokens += 1
            if len(chosen) == num_tokens:
                break
            logits = next_logits(draw.tokens)
    finally:
        for row in rows:
            row.num_sampled_tokens -= len(chosen)
    drafts: Any = mx.stack(chosen, axis=1).tolist()
    return list(drafts)


class DraftModel:
    """Drafts with the rows' own samplers.

    So seed and position give both models the same noise. All rows are drafted for in one batch.
    """

    name = "draft"
    needs_tokens = True

    def __init__(self, model: Any, *, vocabulary_size: int, backend: Backend) -> None:
        self._model = model
        self._backend = backend
        self._vocabulary_size = vocabulary_size
        self._caches = DraftCaches(lambda: kv.new_caches(model))
        self._rows: dict[int, _DraftedTokens] = {}

    def draft(self, rows: abc.Sequence[Sequence], max_tokens: abc.Sequence[int]) -> list[Draft]:
        """Return what the draft model samples next for each row."""
        ready = [row for row, num in zip(rows, max_tokens, strict=True) if num and self._catch_up(row, rows)]
        if not ready:
            return [NO_DRAFT] * len(rows)
        drafts = dict(zip(ready, self._draft(ready, max(max_tokens)), strict=True))
        return [
            Draft(tuple(drafts[row][:num])) if num and row in drafts else NO_DRAFT
            for row, num in zip(rows, max_tokens, strict=True)
        ]

    def drop(self, sequence_id: int) -> None:
        """Free the cache of a row that ended."""
        self._rows.pop(sequence_id, None)
        self._caches.drop(sequence_id)

    def _catch_up(self, row: Sequence, rows: abc.Sequence[Sequence]) -> bool:
        """Compute tokens that the row's cache lacks, if they are many.

        Returns whether the row can be drafted for in this step.
        """
        if row.sequence_id not in self._rows:
            self._rows[row.sequence_id] = _DraftedTokens(row)
        drafted = self._rows[row.sequence_id]
        num_ahead = drafted.compare(row)
        if num_ahead <= (_CATCH_UP_TOKENS if len(rows) == 1 else _BATCHED_TOKENS):
            return True
        caches, num_rejected = self._caches.of_row(row.sequence_id), drafted.drop_rejected()
        for layer in leaves(caches):
            layer.trim(num_rejected)
        tokens = drafted.take(min(num_ahead - 1, _CATCH_UP_TOKENS))
        self._model(mx.array(tokens.tolist())[None], cache=caches)
        kv.evaluate(caches)
        return num_ahead <= _CATCH_UP_TOKENS

    def _draft(self, rows: abc.Sequence[Sequence], num_tokens: int) -> list[list[int]]:
        drafted = [self._rows[row.sequence_id] for row in rows]
        caches = self._caches.of_batch([row.sequence_id for row in rows])
        self._caches.trim([each.drop_rejected() for each in drafted])
        ahead = [each.take(each.num_ahead) for each in drafted]
        longest = max(map(len, ahead))
        paddings = [longest - len(tokens) for tokens in ahead]
        block = np.array(
            [[*tokens, *[0] * num] for tokens, num in zip(ahead, paddings, strict=True)], dtype=np.uint32
        )
        logits = self._model(mx.array(block), cache=caches)
        logits = logits[mx.arange(len(rows)), mx.array([len(tokens) - 1 for tokens in ahead])]
        self._caches.align_ends(paddings)

        def next_logits(tokens: mx.array) -> mx.array:
            logits: mx.array = self._model(tokens[:, None], cache=caches)[:, -1, :]
            return logits

        drafts = sample_drafts(
            rows,
            logits,
            next_logits,
            last_tokens=[tokens[-1] for tokens in ahead],
            num_tokens=num_tokens,
            vocabulary_size=self._vocabulary_size,
            backend=self._backend,
        )
        for each, draft in zip(drafted, drafts, strict=True):
            each.tokens += array("I", draft[:-1])
        return drafts


class _DraftedTokens:
    """The tokens of a row, and those in its draft cache."""

    def __init__(self, row: Sequence) -> None:
        self.tokens = array("I")
        # The prompt of a preempted row has its output as well.
        self._history = array("I", row.prompt_token_ids[: row.num_client_tokens])
        self._num_prompt_tokens = len(self._history)
        self._num_common = 0

    @property
    def num_ahead(self) -> int:
        """Tokens of the row that the cache lacks, at least one."""
        return len(self._history) - self._num_common

    def compare(self, row: Sequence) -> int:
        """Compare the cache with the tokens of the row; return `num_ahead`.

        The last token is always computed again: its logits are needed.
        """
        num_common = min(len(self.tokens), len(self._history))
        self._history += array("I", row.output_token_ids[len(self._history) - self._num_prompt_tokens :])
        most = min(len(self.tokens), len(self._history) - 1)
        num_common = min(num_common, most)
        while num_common < most and self.tokens[num_common] == self._history[num_common]:
            num_common += 1
        self._num_common = num_common
        return self.num_ahead

    def drop_rejected(self) -> int:
        """Drop the tokens that the row does not have; return their number."""
        num_rejected = len(self.tokens) - self._num_common
        del self.tokens[self._num_common :]
        return num_rejected

    def take(self, num_tokens: int) -> "array[int]":
        """Return the next tokens of the row.

        The cache counts as having them.
        """
        tokens = self._history[self._num_common : self._num_common + num_tokens]
        self.tokens += tokens
        self._num_common += num_tokens
        return tokens


def _resized(logits: mx.array, size: int) -> mx.array:
    """Return logits of the target's width.

    Models of one vocabulary may pad it differently.
    """
    width = logits.shape[-1]
    if width >= size:
        return logits[:, :size]
    return mx.pad(logits, [(0, 0), (0, size - width)], constant_values=-mx.inf)
