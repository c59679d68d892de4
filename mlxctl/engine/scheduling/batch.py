"""Batch: one step's work from scheduler to runner, and its results.

Pure.
"""

from collections import abc
from dataclasses import dataclass
from typing import Literal

from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.engine.wire.reports import PreemptionReason, Score
from mlxctl.ir.cache_usage import NO_CACHE_USAGE, CacheUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLimit:
    """Seconds of a turn, and of one that ends its pass."""

    seconds: float
    finishing_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One step's work for one model.

    - Restore: fill the caches of `prompts` from the prefix cache.
    - Prefill: compute the next `num_tokens` of one prompt, or all remaining tokens of several, between two
      decode steps of `num_decoding_rows` rows. With a `turn` the pass stops after some layers, and a later
      batch of the same prompts continues it.
    - Decode: one token for every row of `groups`; with `joins` some of the groups are joined first.
    - Read: read the tokens in flight of the rows in `groups`.
    - Preempt: read the tokens in flight of the rows in `groups`, and keep their caches; for `memory`, free
      them, and those of `prompts`. `reason` is why.
    """

    phase: Literal["restore", "prefill", "decode", "read", "preempt"]
    model: str
    groups: abc.Sequence[abc.Sequence[Sequence]] = ()
    prompts: abc.Sequence[Sequence] = ()
    num_tokens: int = 0
    num_decoding_rows: int = 0
    turn: TurnLimit | None = None
    joins: bool = False
    reason: PreemptionReason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowResult:
    """Result of a step for one row.

    Decode, read and preempt: the tokens read back, with their `scores` where wanted; of `num_draft_tokens`
    verified ones `num_accepted_tokens` are among them. Prefill: `prompt_scores` of the tokens after each
    computed one; with `is_unfinished` the pass continues in a later batch. Restore: `cache_usage`, and the
    `checkpoint_positions` where prefill has to pause; with `is_restoring` nothing is restored yet, since the
    records are read from disk first. `failure` ends the row.
    """

    sequence: Sequence
    token_ids: abc.Sequence[int] = ()
    scores: abc.Sequence[Score] = ()
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    prompt_scores: abc.Sequence[Score] = ()
    is_unfinished: bool = False
    failure: str | None = None
    cache_usage: CacheUsage = NO_CACHE_USAGE
    checkpoint_positions: abc.Sequence[int] = ()
    is_restoring: bool = False
