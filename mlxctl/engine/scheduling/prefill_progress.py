"""Progress of prefill over one prompt. Pure; MLX thread."""

from bisect import insort
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

_MAX_LAST_PASSES = 3


class MeasuredPass(NamedTuple):
    """A pass over part of a prompt, after `context` tokens of it."""

    num_tokens: int
    seconds: float
    context: int


@dataclass(slots=True, eq=False)
class PrefillProgress:
    """How far the prompt of a sequence is computed.

    `num_computed_tokens` of it are in the cache, of which `num_cached_tokens` were restored; until then,
    `expected_cached_tokens` is an estimate of them. Prefill ends at `end`, before the last token, which is
    the first input of decoding: so prefill needs no logits. It pauses at `checkpoint_positions`.

    A pass over `num_pass_tokens` is unfinished, after `pass_seconds` of work. `last_passes` are the last
    measured ones.
    """

    end: int
    expected_cached_tokens: int = 0
    needs_restore: bool = True
    num_cached_tokens: int = 0
    num_computed_tokens: int = 0
    checkpoint_positions: list[int] = field(default_factory=list)
    num_pass_tokens: int = 0
    pass_seconds: float = 0.0
    last_passes: deque[MeasuredPass] = field(default_factory=lambda: deque(maxlen=_MAX_LAST_PASSES))

    def after_preemption(self, num_tokens: int) -> "PrefillProgress":
        """Return that of the same sequence, whose `num_tokens` were computed before."""
        end = num_tokens - 1
        return PrefillProgress(end, expected_cached_tokens=end, last_passes=self.last_passes)

    def expect(self, num_tokens: int) -> None:
        """Note how many tokens could be restored now."""
        self.expected_cached_tokens = num_tokens

    def restore(self, num_tokens: int, checkpoint_positions: Iterable[int] = ()) -> None:
        """Start after the first `num_tokens`, which are in the cache."""
        self.needs_restore = False
        self.num_cached_tokens = self.num_computed_tokens = num_tokens
        self.checkpoint_positions = sorted({*self.checkpoint_positions, *checkpoint_positions})

    def add_checkpoint(self, position: int) -> None:
        """Pause at a position as well."""
        if position not in self.checkpoint_positions:
            insort(self.checkpoint_positions, position)

    def interrupt_pass(self, num_tokens: int, *, seconds: float) -> None:
        """Note a pass over `num_tokens` that took `seconds` and is unfinished."""
        self.num_pass_tokens = num_tokens
        self.pass_seconds += seconds

    def finish_pass(self, num_tokens: int) -> None:
        """Note that the next `num_tokens` are computed."""
        self.num_computed_tokens += num_tokens
        self.num_pass_tokens, self.pass_seconds = 0, 0.0

    def measure_pass(self, measured: MeasuredPass) -> None:
        """Add the measurement of the pass that ends."""
        self.last_passes.append(measured)

    @property
    def has_unfinished_pass(self) -> bool:
        """Whether a pass was interrupted for other rows."""
        return self.num_pass_tokens > 0

    @property
    def has_begun(self) -> bool:
        """Whether a pass over the prompt has begun."""
        return self.num_computed_tokens > self.num_cached_tokens or self.has_unfinished_pass

    @property
    def num_remaining_tokens(self) -> int:
        """Tokens left to compute before decoding."""
        return self.end - self.num_computed_tokens

    @property
    def remaining_checkpoints(self) -> list[int]:
        """Checkpoint positions ahead, ascending, and then the end."""
        return [
            position
            for position in self.checkpoint_positions
            if self.num_computed_tokens < position < self.end
        ] + [self.end]

    @property
    def num_tokens_to_checkpoint(self) -> int:
        """Tokens left to compute before the next checkpoint or decoding."""
        return self.remaining_checkpoints[0] - self.num_computed_tokens
