"""Checkpoint policy: positions at which layer states are stored. Pure.

A recurrent or sliding-window layer has one state, after its last token; a prefix can be restored only where
that state was stored.

- States are stored where conversations usually branch: after the first and the last few messages, where a
  match ended, every STRIDE_TOKENS of a long prompt, and at the end of prompt and answer. A prompt without
  messages, such as one of token ids, has them at each quarter.
- A path keeps MAX_CHECKPOINTS of them: the first and the newest ones stay, of the others the one whose
  neighbors are closest together is dropped first.
"""

from collections.abc import Iterable, Sequence

STRIDE_TOKENS = 4096
MAX_CHECKPOINTS = 16
_MAX_BOUNDARIES = 4
_NUM_PARTS = 4
# Shorter parts cost more in prefill passes than a prompt that diverges there would save.
_MIN_PART_TOKENS = 128
# The ends of an answer, of its prompt and of earlier messages lie close together, and the next turn continues
# from one of them.
_NUM_NEWEST = 6


def planned_positions(
    *, num_prompt_tokens: int, boundaries: Sequence[int], branch: int | None, num_cached: int
) -> list[int]:
    """Return where to store states during prefill, ascending, in (num_cached, num_prompt_tokens).

    `boundaries` are the ends of the messages, in tokens; of many only the first and the last few are used.
    `branch` is where a match ended without a checkpoint.
    """
    last = num_prompt_tokens - 1
    inner = [position for position in boundaries if 0 < position <= last]
    chosen = {*inner[:1], *inner[-_MAX_BOUNDARIES:], *range(STRIDE_TOKENS, last, STRIDE_TOKENS), last}
    if not inner and last >= _NUM_PARTS * _MIN_PART_TOKENS:
        chosen.update(last * part // _NUM_PARTS for part in range(1, _NUM_PARTS))
    if branch is not None:
        chosen.add(branch)
    return sorted(position for position in chosen if num_cached < position <= last)


def surplus(positions: Iterable[int], *, keep: int = MAX_CHECKPOINTS) -> list[int]:
    """Return which checkpoints of a path to drop so that `keep` remain."""
    remaining = sorted(set(positions))
    num_newest = min(_NUM_NEWEST, keep - 1)
    dropped = []
    while len(remaining) > max(keep, 2):
        _, victim = min(
            (remaining[index + 1] - remaining[index - 1], remaining[index])
            for index in range(1, len(remaining) - num_newest)
        )
        remaining.remove(victim)
        dropped.append(victim)
    return dropped
