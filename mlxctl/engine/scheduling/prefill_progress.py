"""Progress of prefill over one prompt. Pure; MLX thread."""

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class PrefillProgress:
    """How far the prompt of a sequence is computed.

    `num_computed_tokens` of it are in the cache, of which `num_cached_tokens` were restored; until then,
    `expected_cached_tokens` is an estimate of them. Prefill ends at `end`, before the last token, which is
    the first input of decoding: so prefill needs no logits. It pauses at `checkpoint_positions`.
    """

    end: int
    expected_cached_tokens: int = 0
    needs_restore: bool = True
    num_cached_tokens: int = 0
    num_computed_tokens: int = 0
    checkpoint_positions: list[int] = field(default_factory=list)

    def after_preemption(self, num_tokens: int) -> "PrefillProgress":
        """Return that of the same sequence, whose `num_tokens` were computed before."""
        end = num_tokens - 1
        return PrefillProgress(end, expected_cached_tokens=end)

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

    def finish_pass(self, num_tokens: int) -> None:
        """Note that the next `num_tokens` are computed."""
        self.num_computed_tokens += num_tokens

    @property
    def has_begun(self) -> bool:
        """Whether a pass over the prompt has begun."""
        return self.num_computed_tokens > self.num_cached_tokens

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
