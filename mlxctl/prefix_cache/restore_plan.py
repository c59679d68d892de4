"""Restore plan: which part of a prompt comes from the prefix cache.

Pure.
"""

from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np

from mlxctl.ir.tokens import Tokens
from mlxctl.prefix_cache.checkpoints import planned_positions
from mlxctl.prefix_cache.entries import Checkpoint, Chunk, PrefixMatch
from mlxctl.prefix_cache.packing import Record
from mlxctl.prefix_cache.policy import MIN_REUSE_TOKENS

HitKind = Literal["exact", "supersequence", "prefix", "common_prefix", "checkpoint", "miss"]
"""How a prompt and the stored sequence with the longest match relate.

- `exact`: they are equal.
- `supersequence`: the stored sequence is longer.
- `prefix`: the prompt is longer.
- `common_prefix`: they differ after the match.
- `checkpoint`: the match is restored up to a checkpoint.
- `miss`: nothing is restored.
"""

P = TypeVar("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """Match of a prompt, and the `num_cached` tokens to restore.

    They come from `chunks` and, in models with layer states, from `checkpoint`. Prefill has to store new
    checkpoints at `checkpoint_positions`.
    """

    match: PrefixMatch[Record]
    chunks: tuple[Chunk[Record], ...]
    checkpoint: Checkpoint[Record] | None
    num_cached: int
    hit: HitKind
    checkpoint_positions: tuple[int, ...]

    @property
    def num_matched(self) -> int:
        """Tokens that match; more than `num_cached` where the layer state is missing."""
        return self.match.num_tokens


def make_plan(
    match: PrefixMatch[Record], tokens: Tokens, *, boundary_ids: frozenset[int], has_states: bool
) -> RestorePlan:
    """Return the plan for a prompt; its last token is never restored.

    `boundary_ids` are the tokens that end a message.
    """
    at_most = len(tokens) - 1
    num_cached, chunks, checkpoint = usable_part(match, at_most, has_states=has_states)
    if num_cached < MIN_REUSE_TOKENS:
        num_cached, chunks, checkpoint = 0, (), None
    positions: list[int] = []
    if has_states:
        positions = planned_positions(
            num_prompt_tokens=len(tokens),
            boundaries=_boundaries(tokens, boundary_ids),
            branch=match.num_tokens if match.num_tokens - num_cached >= MIN_REUSE_TOKENS else None,
            num_cached=num_cached,
        )
    return RestorePlan(
        match=match,
        chunks=chunks,
        checkpoint=checkpoint,
        num_cached=num_cached,
        hit=_classify(match, num_cached, at_most, has_states=has_states),
        checkpoint_positions=tuple(positions),
    )


def usable_part(
    match: PrefixMatch[P], at_most: int, *, has_states: bool
) -> "tuple[int, tuple[Chunk[P], ...], Checkpoint[P] | None]":
    """Return which part of a match can be restored, and from what.

    All of it without layer states, else up to its last checkpoint.
    """
    if not has_states:
        return min(match.num_tokens, at_most), match.chunks, None
    last = match.checkpoint(at_most=at_most)
    return (last[0].position, last[1], last[0]) if last is not None else (0, (), None)


def _classify(match: PrefixMatch[Record], num_cached: int, at_most: int, *, has_states: bool) -> HitKind:
    if not num_cached:
        return "miss"
    if has_states:
        return "checkpoint"
    last = match.chunks[-1]
    if num_cached == at_most:
        return "supersequence" if last.end > at_most + 1 or last.children else "exact"
    return "prefix" if match.num_tokens == last.end else "common_prefix"


def _boundaries(tokens: Tokens, boundary_ids: frozenset[int]) -> list[int]:
    """Return the positions after the tokens that end a message."""
    ids = np.frombuffer(tokens, dtype=np.uint32)
    return [int(index) + 1 for index in np.flatnonzero(np.isin(ids, list(boundary_ids)))]
