"""Constraints of a batch's next tokens, as arrays for the sampler.

Knows no MLX.
"""

from collections import abc
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlxctl.engine.scheduling.sequence import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class LogitConstraints:
    """Masks, forced tokens and penalties of the rows that have constraints.

    `masks` (n, ceil(V / 32)) int32 has a bit for each token that the rows at indices `masked` may get.
    `forced` has a token for each row, -1 for none, or is None. Token `penalized_ids[i]` of row `penalized[i]`
    loses `penalties[i]` nats.
    """

    masked: list[int] = field(default_factory=list)
    masks: "np.ndarray[Any, np.dtype[np.int32]] | None" = None
    forced: list[int] | None = None
    penalized: list[int] = field(default_factory=list)
    penalized_ids: list[int] = field(default_factory=list)
    penalties: list[float] = field(default_factory=list)


def collect_constraints(
    rows: abc.Sequence[Sequence], token_ids: abc.Sequence[int | None], *, vocabulary_size: int
) -> LogitConstraints | None:
    """Feed new tokens to the rows' constraints; return these as arrays.

    None if no row has a constraint. `token_ids` are the tokens in flight, None for rows whose token was not
    read back because their constraint does not need it.
    """
    masked = [
        index for index, row in enumerate(rows) if row.constraint is not None and row.constraint.has_grammar
    ]
    masks: Any = np.zeros((len(masked), (vocabulary_size + 31) // 32), dtype=np.int32) if masked else None
    forced = [-1] * len(rows)
    penalties: list[tuple[int, int, float]] = []
    for index, (row, token_id) in enumerate(zip(rows, token_ids, strict=True)):
        constraint = row.constraint
        if constraint is None:
            continue
        constraint.consume(
            row.output_token_ids, [token_id] if token_id is not None and row.has_token_in_flight else ()
        )
        if masks is not None and constraint.has_grammar:
            constraint.fill_mask(masks[masked.index(index)])
        forced_id = constraint.forced_token(row.num_sampled_tokens)
        forced[index] = -1 if forced_id is None else forced_id
        penalties += [
            (index, penalized_id, amount) for penalized_id, amount in constraint.penalties().items()
        ]
    is_forced = any(token_id >= 0 for token_id in forced)
    if not (masked or is_forced or penalties):
        return None
    return LogitConstraints(
        masked=masked,
        masks=masks,
        forced=forced if is_forced else None,
        penalized=[index for index, _, _ in penalties],
        penalized_ids=[token_id for _, token_id, _ in penalties],
        penalties=[amount for _, _, amount in penalties],
    )
