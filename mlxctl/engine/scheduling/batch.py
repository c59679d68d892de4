"""One step's work and what came of it: what the scheduler hands to the runner, and gets back. Pure."""

from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import Literal

from mlxctl.engine.scheduling.sequence import NOTHING_FOUND, Found, Sequence
from mlxctl.engine.wire.messages import Score


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One step's work for one model.

    Restore: take over what the prefix cache has of `prompts`. Prefill: compute the next `num_tokens` of one
    prompt, or all that is left of several, while `num_decoding_rows` rows wait for their next token. Decode: a
    token for every row of `groups`.
    """

    phase: Literal["restore", "prefill", "decode"]
    model: str
    groups: Many[Many[Sequence]] = ()
    prompts: Many[Sequence] = ()
    num_tokens: int = 0
    num_decoding_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RowResult:
    """What a step gave for one row: a token that was read back, what was restored and where to pause, or why
    the row failed. `prompt_scores` are those of the tokens behind each that was prefilled.

    With `is_fetching` nothing was restored yet: it is on its way from disk, and `resume` says when it has
    come.
    """

    sequence: Sequence
    token_id: int | None = None
    score: Score | None = None
    prompt_scores: Many[Score] = ()
    failure: str | None = None
    found: Found = NOTHING_FOUND
    checkpoint_positions: Many[int] = ()
    is_fetching: bool = False
