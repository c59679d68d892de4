"""Where the state of layers that cannot be cut is kept, and which of these checkpoints stay. Pure.

A recurrent or sliding layer has one state, after the last token it has seen; a prefix can be taken up again
only where that state was kept. It is kept where conversations part: after the system prompt and after each
message, where a match ended, every STRIDE_TOKENS of a long prompt, and at the end of a turn. Too many are
thinned so that they stay spread: the first and the newest few always stay, then the one that leaves the
smallest hole goes.
"""

from collections.abc import Iterable, Sequence

STRIDE_TOKENS = 4096
MAX_CHECKPOINTS = 16
_MAX_BOUNDARIES = 4
# The end of an answer, of its prompt and of the messages before lie close together, and the next turn goes on
# from one of them.
_NUM_NEWEST = 6


def planned_positions(
    *, num_prompt_tokens: int, boundaries: Sequence[int], branch: int | None, num_cached: int
) -> list[int]:
    """Return where to keep a state while a prompt is read, ascending, all within (num_cached,
    num_prompt_tokens).

    `boundaries` are the ends of the messages, in tokens; of many only the first and the last few are worth
    their copy. `branch` is where a match with something known ended without a checkpoint.
    """
    last = num_prompt_tokens - 1
    inner = [position for position in boundaries if 0 < position <= last]
    chosen = {*inner[:1], *inner[-_MAX_BOUNDARIES:], *range(STRIDE_TOKENS, last, STRIDE_TOKENS), last}
    if branch is not None:
        chosen.add(branch)
    return sorted(position for position in chosen if num_cached < position <= last)


def surplus(positions: Iterable[int], *, keep: int = MAX_CHECKPOINTS) -> list[int]:
    """Return which of a path's checkpoints to drop so that `keep` remain, spread over it."""
    kept = sorted(set(positions))
    num_newest = min(_NUM_NEWEST, keep - 1)
    dropped = []
    while len(kept) > max(keep, 2):
        hole, victim = min(
            (kept[place + 1] - kept[place - 1], kept[place]) for place in range(1, len(kept) - num_newest)
        )
        del hole
        kept.remove(victim)
        dropped.append(victim)
    return dropped
