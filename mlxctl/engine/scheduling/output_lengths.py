"""How long answers are likely to become. Pure; MLX thread."""

from collections import deque

from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.ir.conversation_size import OUTPUT_RESERVE_TOKENS

_NUM_ANSWERS = 64
# Answers that must have been longer than a row, so that their mean says something about it.
_LEAST_ANSWERS = 4


class OutputLengths:
    """Lengths of the last answers, from which those of decoding rows follow.

    A row becomes as long as the mean of the answers that were longer than it is now. With too few of them it
    is expected to double, at least by OUTPUT_RESERVE_TOKENS. `max_tokens` bounds it: clients often set much
    more than the answer takes.
    """

    def __init__(self) -> None:
        self._last: deque[int] = deque(maxlen=_NUM_ANSWERS)

    def note(self, num_tokens: int) -> None:
        """Add the length of an answer that has ended."""
        self._last.append(num_tokens)

    def remaining(self, row: Sequence) -> int:
        """Return how many more tokens the row's cache is likely to take."""
        num_tokens = max(len(row.output_token_ids), row.num_sampled_tokens)
        longer = [length for length in self._last if length > num_tokens]
        likely = max(num_tokens, OUTPUT_RESERVE_TOKENS)
        if len(longer) >= _LEAST_ANSWERS:
            likely = sum(longer) // len(longer) - num_tokens
        return max(0, min(likely, row.max_tokens - num_tokens))
