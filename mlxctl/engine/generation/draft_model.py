"""Draft model: a small model drafts for a large one.

Both have the same vocabulary. MLX thread only.
"""

from array import array
from collections.abc import Callable
from collections.abc import Sequence as Many
from typing import Any

import mlx.core as mx

from mlxctl.engine.generation import caches as kv
from mlxctl.engine.sampling.sampler import BatchSampler
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.engine.speculation.drafter import NO_DRAFT, Draft
from mlxctl.prefix_cache.records import grows, leaves

# Prompt tokens that one step may compute for the draft model; rows wait for their next token meanwhile.
_CATCH_UP_TOKENS = 256


def draft_model_problem(model: Any) -> str:
    """Return why a model cannot draft, else ""."""
    kinds = {type(layer).__name__ for layer in leaves(kv.new_caches(model)) if not grows(layer)}
    return f"its layers keep their state in a {min(kinds)}, which cannot be taken back" if kinds else ""


def sample_draft(
    row: Sequence,
    logits: mx.array,
    next_logits: Callable[[mx.array], mx.array],
    *,
    last_token: int,
    num_tokens: int,
    vocabulary_size: int,
) -> list[int]:
    """Return tokens that the row's own sampler chooses from a drafter's logits.

    `logits` (1, V) are those after `last_token`; `next_logits` returns those after a token (1,).
    """
    sampler = BatchSampler([row], inputs=mx.array([last_token]), vocabulary_size=vocabulary_size)
    num_sampled = row.num_sampled_tokens
    draft: list[int] = []
    try:
        while True:
            token, _ = sampler.sample(_resized(logits, vocabulary_size), [row])
            row.num_sampled_tokens += 1
            token_id: Any = token.item()
            draft.append(token_id)
            if len(draft) == num_tokens:
                return draft
            logits = next_logits(token)
    finally:
        row.num_sampled_tokens = num_sampled


class DraftModel:
    """Drafts with the row's own sampler.

    So seed and position give both models the same noise. Each row has a cache of its own, and rows are
    drafted for one after the other.
    """

    name = "draft"
    needs_tokens = True

    def __init__(self, model: Any, *, vocabulary_size: int) -> None:
        self._model = model
        self._vocabulary_size = vocabulary_size
        self._rows: dict[int, _DraftedRow] = {}

    def draft(self, rows: Many[Sequence], max_tokens: Many[int]) -> list[Draft]:
        """Return what the draft model samples next for each row."""
        return [self._draft(row, num) if num else NO_DRAFT for row, num in zip(rows, max_tokens, strict=True)]

    def drop(self, sequence_id: int) -> None:
        """Free the cache of a row that ended."""
        self._rows.pop(sequence_id, None)

    def _draft(self, row: Sequence, num_tokens: int) -> Draft:
        if row.sequence_id not in self._rows:
            self._rows[row.sequence_id] = _DraftedRow(row, kv.new_caches(self._model))
        drafted = self._rows[row.sequence_id]
        ahead = drafted.tokens_ahead(row)
        if len(ahead) > _CATCH_UP_TOKENS:
            self._model(mx.array(ahead[:_CATCH_UP_TOKENS].tolist())[None], cache=drafted.caches)
            kv.evaluate(drafted.caches)
            drafted.tokens += ahead[:_CATCH_UP_TOKENS]
            return NO_DRAFT
        logits = self._model(mx.array(ahead.tolist())[None], cache=drafted.caches)[:, -1, :]
        drafted.tokens += ahead

        def next_logits(token: mx.array) -> mx.array:
            token_id: Any = token.item()
            drafted.tokens.append(token_id)
            logits: mx.array = self._model(token[None], cache=drafted.caches)[:, -1, :]
            return logits

        draft = sample_draft(
            row,
            logits,
            next_logits,
            last_token=ahead[-1],
            num_tokens=num_tokens,
            vocabulary_size=self._vocabulary_size,
        )
        return Draft(tuple(draft))


class _DraftedRow:
    """The draft model's cache of a row, and the tokens in it."""

    def __init__(self, row: Sequence, caches: kv.Caches) -> None:
        self.caches = caches
        self.tokens = array("I")
        # The prompt of a preempted row has its output as well.
        self._history = array("I", row.prompt_token_ids[: row.num_client_tokens])
        self._num_prompt_tokens = len(self._history)

    def tokens_ahead(self, row: Sequence) -> "array[int]":
        """Drop rejected tokens from the cache; return what it lacks."""
        num_common = min(len(self.tokens), len(self._history))
        self._history += array("I", row.output_token_ids[len(self._history) - self._num_prompt_tokens :])
        # At least the last token is computed again: its logits are needed.
        most = min(len(self.tokens), len(self._history) - 1)
        num_common = min(num_common, most)
        while num_common < most and self.tokens[num_common] == self._history[num_common]:
            num_common += 1
        if (num_rejected := len(self.tokens) - num_common) > 0:
            for layer in leaves(self.caches):
                layer.trim(num_rejected)
            del self.tokens[num_common:]
        return self._history[num_common:]


def _resized(logits: mx.array, size: int) -> mx.array:
    """Return logits of the target's width.

    Models of one vocabulary may pad it differently.
    """
    width = logits.shape[-1]
    if width >= size:
        return logits[:, :size]
    return mx.pad(logits, [(0, 0), (0, size - width)], constant_values=-mx.inf)
