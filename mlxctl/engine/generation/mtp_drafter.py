"""Drafts with the MTP head of the model's checkpoint. MLX thread only."""

from collections.abc import Callable
from collections.abc import Sequence as Many
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from mlxctl.engine.generation.draft_model import sample_draft
from mlxctl.engine.generation.hidden_states import HiddenStates
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.engine.speculation.drafter import NO_DRAFT, Draft

if TYPE_CHECKING:
    from mlxctl.engine.generation.mtp_head import MtpHead

UseAdapters = Callable[[Many[Sequence]], AbstractContextManager[None]]
"""Uses the LoRA adapters of rows in the passes that are built inside."""


@dataclass(slots=True)
class _HeadCaches:
    """The head's caches of a row.

    They end before the state of the token at index `end`.
    """

    layers: list[Any]
    end: int


class MtpDrafter:
    """Drafts with the row's own sampler, from the model's states.

    The head reads the states of a row since its last draft, at most the last 256. After that it continues
    from its own states. Rows are drafted for one after the other.
    """

    name = "mtp"
    needs_tokens = True

    def __init__(
        self,
        head: "MtpHead",
        text_model: Any,
        states: HiddenStates,
        use_adapters: UseAdapters,
        *,
        vocabulary_size: int,
    ) -> None:
        """`text_model` is mlx-lm's; the head uses its embeddings and output head."""
        self._head = head
        self._text_model = text_model
        self._states = states
        self._use_adapters = use_adapters
        self._vocabulary_size = vocabulary_size
        self._caches: dict[int, _HeadCaches] = {}

    def draft(self, rows: Many[Sequence], max_tokens: Many[int]) -> list[Draft]:
        """Return what the head samples next for each row."""
        return [self._draft(row, num) if num else NO_DRAFT for row, num in zip(rows, max_tokens, strict=True)]

    def drop(self, sequence_id: int) -> None:
        """Free what is held for a row that ended."""
        self._caches.pop(sequence_id, None)
        self._states.drop(sequence_id)

    def _draft(self, row: Sequence, num_tokens: int) -> Draft:
        if (taken := self._states.take(row)) is None:
            return NO_DRAFT
        start, states = taken
        caches = self._caches.get(row.sequence_id)
        if caches is None or caches.end != start:
            caches = self._caches[row.sequence_id] = _HeadCaches(self._head.new_caches(), start)
        caches.end = row.length
        tokens = _tokens(row, start + 1, row.length + 1)
        with self._use_adapters([row]):
            return Draft(tuple(self._sample(row, tokens, states, caches.layers, num_tokens)))

    def _sample(
        self, row: Sequence, tokens: list[int], states: mx.array, caches: list[Any], num_tokens: int
    ) -> list[int]:
        def next_logits(token: mx.array) -> mx.array:
            nonlocal states
            states = self._head(states[:, -1:], self._text_model.model.embed_tokens(token[None]), caches)
            return self._logits(states)

        states = self._head(states, self._text_model.model.embed_tokens(mx.array(tokens)[None]), caches)
        draft = sample_draft(
            row,
            self._logits(states),
            next_logits,
            last_token=tokens[-1],
            num_tokens=num_tokens,
            vocabulary_size=self._vocabulary_size,
        )
        for cache in caches:
            # The model's own states take the place of the head's.
            cache.trim(len(draft) - 1)
        return draft

    def _logits(self, states: mx.array) -> mx.array:
        """Return the logits (1, vocabulary) after the last state."""
        last, model = states[:, -1], self._text_model
        logits: mx.array = (
            model.model.embed_tokens.as_linear(last)
            if model.args.tie_word_embeddings
            else model.lm_head(last)
        )
        return logits


def _tokens(row: Sequence, start: int, end: int) -> list[int]:
    """Return the tokens of prompt and output at these indices."""
    num_prompt, output = row.num_prompt_tokens, row.output_token_ids
    places = (row.num_resumed_tokens + max(place - num_prompt, 0) for place in (start, end))
    return [*row.prompt_token_ids[start:end], *output[slice(*places)]]
