"""Seconds of passes and decode steps, by formula."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlxctl.engine.scheduling.batch import TurnLimit


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Seconds of a pass and of a decode step.

    - Pass: `pass_fixed`, `pass_token` for each token, with padding, `pass_context` for each token before it,
      and `pass_attention` for each pair of a token and one that it attends to. Its `num_layers` take the same
      time; each turn over some of them adds `turn_fixed`.
    - Decode step: `step_fixed` for each group, `step_row` for each row, `step_context` for each token in the
      caches, with padding. A join takes `join_row` for each row and `join_token` for each token.
    - Mixture of experts: both add up to `all_experts`, the time to read all of them, of which a token uses
      `expert_share`.
    """

    pass_fixed: float = 0.002
    pass_token: float = 0.0002
    pass_context: float = 0.0
    pass_attention: float = 0.0
    turn_fixed: float = 0.0
    step_fixed: float = 0.002
    step_row: float = 0.0005
    step_context: float = 0.0
    join_row: float = 0.0
    join_token: float = 0.0
    all_experts: float = 0.0
    expert_share: float = 1.0
    num_layers: int = 1

    def pass_seconds(self, num_tokens: int, *, context: int = 0, num_prompts: int = 1) -> float:
        """Return the seconds of a pass.

        `num_tokens` are those of all its prompts, each after `context` tokens.
        """
        attended = context + num_tokens / num_prompts / 2
        per_token = self.pass_token + self.pass_attention * attended
        fixed = self.pass_fixed + self.pass_context * context * num_prompts
        return fixed + self._expert_seconds(num_tokens) + per_token * num_tokens

    def step_seconds(self, groups: Sequence[Sequence[int]]) -> float:
        """Return the seconds of a decode step of these row lengths."""
        return sum(
            self.step_fixed
            + self.step_row * len(group)
            + self.step_context * len(group) * max(group)
            + self._expert_seconds(len(group))
            for group in groups
        )

    def join_seconds(self, groups: Sequence[Sequence[int]]) -> float:
        """Return the seconds to join rows of these lengths into groups."""
        return sum(len(group) * (self.join_row + self.join_token * max(group)) for group in groups)

    def slower(self, factor: float) -> "Machine":
        """Return a machine that needs `factor` times the time."""
        seconds = {
            name: getattr(self, name) * factor
            for name in self.__dataclass_fields__
            if name not in ("num_layers", "expert_share")
        }
        return Machine(**seconds, num_layers=self.num_layers, expert_share=self.expert_share)

    def _expert_seconds(self, num_tokens: int) -> float:
        return self.all_experts * (1 - (1 - self.expert_share) ** num_tokens)


@dataclass(slots=True, kw_only=True)
class LayeredPass:
    """A pass that is computed some layers at a time, like PrefillPass.

    `layer` are the seconds of one without disturbance, `measured` those of the last ones.
    """

    num_remaining: int
    layer: float
    turn_fixed: float
    work: float = 0.0
    measured: float | None = None

    def run(self, turn: TurnLimit | None, elapse: Callable[[float], float]) -> float:
        """Compute layers for about a turn; return the seconds."""
        taken, fixed = 0.0, self.turn_fixed if turn is not None else 0.0
        num = self._num_within(turn, taken) or 1
        while num:
            work = num * self.layer + fixed
            seconds, fixed = elapse(work), 0.0
            self.work += work
            self.num_remaining -= num
            self.measured = seconds / num
            taken += seconds
            num = self._num_within(turn, taken)
        return taken

    def _num_within(self, turn: TurnLimit | None, taken: float) -> int:
        if turn is None:
            return self.num_remaining
        if self.measured is None:
            return 1
        if self.num_remaining * self.measured <= turn.finishing_seconds - taken:
            return self.num_remaining
        return min(max(int((turn.seconds - taken) / max(self.measured, 1e-9)), 0), self.num_remaining)
