"""Verifies drafts of a decode batch in one pass. MLX thread only.

The pass computes each row's last token and its draft. At every position the row's own sampler chooses a
token; while that equals the draft the next position counts as well. So the output is that of decoding token
by token: the sampler's noise depends on seed and position only, penalties count the tokens before, and
grammars mask each position as after the draft's tokens before it.
"""

from collections import abc
from itertools import pairwise
from typing import Any

import mlx.core as mx
import numpy as np

from mlxctl.engine.decoding import caches as kv
from mlxctl.engine.decoding.decode_batch import DecodeBatch
from mlxctl.engine.decoding.shared_caches import SharedCaches
from mlxctl.engine.sampling.draws import Draw
from mlxctl.engine.sampling.logit_constraints import LogitConstraints
from mlxctl.engine.scheduling.batch import RowResult
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.engine.speculation.cache_rollback import CacheRollback
from mlxctl.engine.speculation.hidden_states import HiddenStates
from mlxctl.engine.wire.reports import Score


def verify_drafts(
    batch: DecodeBatch,
    drafts: abc.Sequence[abc.Sequence[int]],
    states: HiddenStates | None = None,
    *,
    are_forced: bool = False,
) -> list[RowResult]:
    """Return the next tokens of every row, at least one each.

    No token of the batch may be in flight. `drafts` are those of its rows; at least one is not empty. Where
    they `are_forced`, grammars leave no other tokens, and they do not count as drafts. The hidden states of
    the kept tokens are added to `states`.
    """
    assert not isinstance(batch.caches, SharedCaches), "other ranks do not verify drafts"
    drafts, constraints = _allowed(batch, drafts)
    last: Any = batch.inputs.tolist()
    longest = max(map(len, drafts))
    # Padding repeats a token of the row; what is computed for it is never kept.
    blocks: kv.Tokens = np.array(
        [
            [token_id, *draft, *[token_id] * (longest - len(draft))]
            for token_id, draft in zip(last, drafts, strict=True)
        ],
        dtype=np.uint32,
    )
    rollback = CacheRollback(batch.caches)
    logits = batch.model(mx.array(blocks), cache=batch.caches, **batch.shifts)
    block_states = states.take_pass() if states is not None else None
    choices = _Choices(batch, logits, constraints)
    accepted = [_num_accepted(*each) for each in zip(drafts, choices.rows, strict=True)]
    emitted = [
        _up_to_stop(row, chosen[: num + 1])
        for row, chosen, num in zip(batch.rows, choices.rows, accepted, strict=True)
    ]
    kept = [len(tokens) for tokens in emitted]
    choices.keep(kept)
    rollback.keep(batch.model, blocks, kept, batch.shifts)
    if states is not None:
        states.add(block_states, batch.rows, kept)
    mx.async_eval(*kv.arrays(batch.caches))  # type: ignore[no-untyped-call]
    return [
        RowResult(
            sequence=row,
            token_ids=tokens,
            scores=choices.scores(index, len(tokens)),
            failure=_failure(row),
            num_draft_tokens=0 if are_forced else len(draft),
            num_accepted_tokens=0 if are_forced else len(tokens) - 1,
        )
        for index, (row, tokens, draft) in enumerate(zip(batch.rows, emitted, drafts, strict=True))
    ]


class _Choices:
    """The sampler's tokens at each position of a block.

    `rows` (rows, positions) are lists of token ids.
    """

    def __init__(
        self, batch: DecodeBatch, logits: mx.array, constraints: abc.Sequence[LogitConstraints | None]
    ) -> None:
        """`constraints` are those of the positions after the first."""
        self._batch = batch
        self._counts: list[mx.array | None] = []
        self._num_sampled = [row.num_sampled_tokens for row in batch.rows]
        draws: list[Draw] = []
        for position in range(logits.shape[1]):
            here = logits[:, position, :]
            constraint = constraints[position - 1] if position else batch.collect_constraints(here)
            draw = batch.sampler.sample(here, batch.rows, constraint)
            # The penalties of the next position count this token.
            draw.finish()
            draws.append(draw)
            self._counts.append(batch.sampler.token_counts)
            for row in batch.rows:
                row.num_sampled_tokens += 1
        mx.eval(*[array for draw in draws for array in draw.arrays()])
        self.rows: Any = mx.stack([draw.tokens for draw in draws], axis=1).tolist()
        self._scores = [draw.scores() for draw in draws]

    def keep(self, kept: abc.Sequence[int]) -> None:
        """Continue after the first `kept` tokens of each row."""
        batch = self._batch
        for row, num, before in zip(batch.rows, kept, self._num_sampled, strict=True):
            row.num_sampled_tokens = before + num
        batch.inputs = mx.array(
            [chosen[num - 1] for chosen, num in zip(self.rows, kept, strict=True)], dtype=mx.uint32
        )
        counts = [self._counts[num - 1] for num in kept]
        rows = [array[index] for index, array in enumerate(counts) if array is not None]
        if rows:
            batch.sampler.token_counts = mx.stack(rows)

    def scores(self, index: int, num: int) -> list[Score]:
        """Return the requested scores of a row's first `num` tokens."""
        return [score for scores in self._scores[:num] if (score := scores[index]) is not None]


def _allowed(
    batch: DecodeBatch, drafts: abc.Sequence[abc.Sequence[int]]
) -> tuple[list[abc.Sequence[int]], list[LogitConstraints | None]]:
    """Cut the drafts to what the rows' grammars allow.

    Returns them, and the constraints after each number of draft tokens. A row with another constraint than a
    grammar has no draft.
    """
    allowed = list(drafts)
    masks: dict[int, Any] = {}
    for index, (row, draft) in enumerate(zip(batch.rows, drafts, strict=True)):
        if draft and row.constraint is not None and row.constraint.has_grammar:
            row.constraint.consume(row.output_token_ids)
            masks[index] = np.zeros((len(draft), (batch.vocabulary_size + 31) // 32), dtype=np.int32)
            allowed[index] = draft[: row.constraint.mask_draft(draft, masks[index])]
    constraints: list[LogitConstraints | None] = []
    for position in range(max(map(len, allowed))):
        masked = [index for index in masks if position < len(allowed[index])]
        words = np.stack([masks[index][position] for index in masked]) if masked else None
        constraints.append(LogitConstraints(masked=masked, masks=words) if masked else None)
    return allowed, constraints


def _num_accepted(draft: abc.Sequence[int], chosen: abc.Sequence[int]) -> int:
    for num, (proposed, token_id) in enumerate(zip(draft, chosen, strict=False)):
        if proposed != token_id:
            return num
    return len(draft)


def _up_to_stop(row: Sequence, tokens: abc.Sequence[int]) -> list[int]:
    """Return the tokens up to the first stop token."""
    for num, (token_id, _) in enumerate(pairwise(tokens), start=1):
        if token_id in row.stop_token_ids:
            return list(tokens[:num])
    return list(tokens)


def _failure(row: Sequence) -> str | None:
    if row.constraint is not None and row.constraint.failure:
        return f"the output constraint failed: {row.constraint.failure}"
    return None
