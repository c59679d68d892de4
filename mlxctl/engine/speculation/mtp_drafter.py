"""Drafts with the MTP head of the model's checkpoint. MLX thread only."""

from collections import abc
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from mlxctl.engine.backend import Backend
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.engine.speculation.draft_caches import DraftCaches
from mlxctl.engine.speculation.draft_model import sample_drafts
from mlxctl.engine.speculation.hidden_states import HiddenStates
from mlxctl.engine.speculation.policy.drafter import NO_DRAFT, Draft

if TYPE_CHECKING:
    from mlxctl.engine.speculation.mtp_head import MtpHead

UseAdapters = Callable[[abc.Sequence[Sequence]], AbstractContextManager[None]]
"""Uses the LoRA adapters of rows in the passes that are built inside."""


class MtpDrafter:
    """Drafts with the rows' own samplers, from the model's states.

    The head reads the states of a row since its last draft, at most the last 256. After that it continues
    from its own states. All rows are drafted for in one batch.
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
        backend: Backend,
    ) -> None:
        """`text_model` is mlx-lm's; the head uses its embeddings and output head."""
        self._head = head
        self._text_model = text_model
        self._backend = backend
        self._states = states
        self._use_adapters = use_adapters
        self._vocabulary_size = vocabulary_size
        self._caches = DraftCaches(head.new_caches)
        # The index of the token before whose state a row's caches end.
        self._ends: dict[int, int] = {}

    def draft(self, rows: abc.Sequence[Sequence], max_tokens: abc.Sequence[int]) -> list[Draft]:
        """Return what the head samples next for each row."""
        ready: list[Sequence] = []
        states: list[mx.array] = []
        for row, num in zip(rows, max_tokens, strict=True):
            taken = self._states.take(row) if num else None
            if taken is not None:
                start, of_row = taken
                if self._ends.get(row.sequence_id) != start:
                    self._caches.drop(row.sequence_id)
                self._ends[row.sequence_id] = row.length
                ready.append(row)
                states.append(of_row)
        if not ready:
            return [NO_DRAFT] * len(rows)
        tokens = [
            _tokens(row, row.length + 1 - each.shape[1], row.length + 1)
            for row, each in zip(ready, states, strict=True)
        ]
        with self._use_adapters(ready):
            drafts = dict(zip(ready, self._sample(ready, tokens, states, max(max_tokens)), strict=True))
        return [
            Draft(tuple(drafts[row][:num])) if row in drafts else NO_DRAFT
            for row, num in zip(rows, max_tokens, strict=True)
        ]

    def drop(self, sequence_id: int) -> None:
        """Free the caches and states of a row that ended."""
        self._ends.pop(sequence_id, None)
        self._caches.drop(sequence_id)
        self._states.drop(sequence_id)

    def _sample(
        self,
        rows: abc.Sequence[Sequence],
        tokens: abc.Sequence[list[int]],
        states: abc.Sequence[mx.array],
        num_tokens: int,
    ) -> list[list[int]]:
        """Return `num_tokens` for each row.

        `states` (1, n, width) are those of the tokens before its last n `tokens`.
        """
        caches = self._caches.of_batch([row.sequence_id for row in rows])
        embed = self._text_model.model.embed_tokens
        longest = max(map(len, tokens))
        paddings = [longest - len(each) for each in tokens]
        block = np.array(
            [each + [0] * num for each, num in zip(tokens, paddings, strict=True)], dtype=np.uint32
        )
        padded = [
            mx.pad(each, [(0, 0), (0, num), (0, 0)]) if num else each
            for each, num in zip(states, paddings, strict=True)
        ]
        found = self._head(mx.concatenate(padded), embed(mx.array(block)), caches)
        last = found[mx.arange(len(rows)), mx.array([len(each) - 1 for each in tokens])][:, None]
        self._caches.align_ends(paddings)

        def next_logits(chosen: mx.array) -> mx.array:
            nonlocal last
            last = self._head(last, embed(chosen[:, None]), caches)
            return self._logits(last)

        drafts = sample_drafts(
            rows,
            self._logits(last),
            next_logits,
            last_tokens=[each[-1] for each in tokens],
            num_tokens=num_tokens,
            vocabulary_size=self._vocabulary_size,
            backend=self._backend,
        )
        # The model's own states take the place of the head's.
        self._caches.trim([num_tokens - 1] * len(rows))
        return drafts

    def _logits(self, states: mx.array) -> mx.array:
        """Return the logits (B, vocabulary) after states (B, 1, width)."""
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
