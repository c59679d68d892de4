"""Tokens that grammars leave no alternative for. MLX thread only.

They are computed in one pass like a draft that is always accepted, which takes their logits only where scores
are wanted.
"""

from collections import abc
from typing import Any

from mlxctl.engine.decoding.decode_batch import DecodeBatch
from mlxctl.engine.scheduling.sequence import Sequence


def forced_drafts(batch: DecodeBatch, *, can_pad: bool) -> list[abc.Sequence[int]] | None:
    """Return each row's next tokens that are known without logits.

    None if too few are. They follow the tokens in flight. Rows get different numbers of them only with
    `can_pad`.
    """
    rows = [row for row in batch.rows if row.constraint is not None and row.constraint.has_grammar]
    if not rows or (len(rows) < len(batch.rows) and not can_pad):
        return None
    token_ids: Any = None
    if batch.backend.starts_decode_late:
        # Elsewhere the device must not wait for the host, so a token in flight is known only if it is forced.
        batch.finish_draw()
        token_ids = dict(zip((row.sequence_id for row in batch.rows), batch.inputs.tolist(), strict=True))  # type: ignore[arg-type]
    for row in rows:
        is_known = token_ids is not None and row.has_token_in_flight
        row.constraint.consume(row.output_token_ids, [token_ids[row.sequence_id]] if is_known else ())  # type: ignore[union-attr]
    drafts = [_forced(row) for row in batch.rows]
    num = _num_at_once([len(draft) for draft in drafts], can_pad=can_pad)
    return [draft[:num] for draft in drafts] if num else None


def _forced(row: Sequence) -> abc.Sequence[int]:
    constraint = row.constraint
    if constraint is None or not constraint.has_grammar:
        return ()
    # One more token is sampled after them.
    most = row.max_tokens - row.num_sampled_tokens - 1
    most = min(most, constraint.num_free_positions(row.num_sampled_tokens) - 1)
    return constraint.tokens_after(row.num_sampled_tokens)[: max(most, 0)]


def _num_at_once(lengths: abc.Sequence[int], *, can_pad: bool) -> int:
    """Return how many forced tokens of a row one pass computes.

    At most half of the added positions are padding: a position costs a tenth of a pass, as measured for 135M
    parameters on 2 cores, so that more of them would cost more than passes of one token.
    """
    if not can_pad:
        return min(lengths)
    fitting = (
        num for num in range(max(lengths), 0, -1)
        if 2 * sum(min(length, num) for length in lengths) >= num * len(lengths)
    )  # fmt: skip
    return next(fitting, 0)
