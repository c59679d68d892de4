"""Prefill pacer: sizes of prefill passes and turns. Pure; MLX thread.

A pass computes the next tokens of one prompt, or the rest of several. Its layers are evaluated in turns: in
between, the rows decode one step, or another prompt comes first. Policy, in steps (the duration of a decode
step of one row):

- A turn without decoding rows takes five steps, at most `turn_seconds`: so long waits a short request that
  arrives meanwhile. Beside rows it takes 1.5 steps for each waiting prompt, up to nine. So one long prompt
  makes the gap between two tokens 2.5 steps, many short ones ten.
- A pass over part of a prompt is so large that one of its layers takes a turn, or two without rows. However
  long the measured passes took, it has at least 256 tokens, or 512 without rows; fewer after a long context.
  The parts of a prompt are equal.
- Prompts are batched up to sixty times the overhead of a pass, its fixed cost and the decode step that
  returns first tokens. Beside rows a pass that ends prompts takes one turn of up to nine steps.
- The first tokens of a burst's rows wait for its other prompts only if these take at most twenty steps.
- New rows join the others in the decode step after the next one, where joining takes longer than half a step:
  right after a pass it would lengthen the same gap.
- A prompt that has waited for the target time to first token is overdue: turns then fill a configured target
  gap. Without one, a gap is ten steps while the wait is up to four times the target, then in proportion to
  the wait.
- The gap never exceeds the target gap on purpose. Without a configured one it is `_GAP_SECONDS`, or what many
  short prompts may take if that is more.
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping

from mlxctl.engine.scheduling.batch import TurnLimit
from mlxctl.engine.scheduling.pass_costs import PassCost, PassCosts, lower_quartile
from mlxctl.ir.pass_memory import UNBOUNDED_PASSES, PassMemory

# A pass of fewer tokens mostly reads weights: simulated, 256 tokens cost 4 percent more than one pass over
# all with 135M parameters on 2 cores and with 8B on a Mac. After a long context attention takes most of the
# time, so fewer tokens suffice: half after `_HALVING_CONTEXT`.
_LEAST_TOKENS = 256
_HALVING_CONTEXT = 1024
_FEWEST_TOKENS = 32
# A pass takes at least so many times its fixed cost, which is high for mixtures of experts.
_LEAST_FIXED_COSTS = 4
# A policy, not a measurement: a pass with prompts left has more than half as many, so all overheads together
# are at most a thirtieth of the work.
_BATCHED_OVERHEADS = 60
# A policy, not a measurement: the wait of a new request; turns without rows cost nothing.
_STEPS_ALONE = 5
# Measured beside 8,000 tokens (5M parameters, 2 cores): p99 gaps of 3.8 steps, 4.7 with 2; simulated, the
# prompt takes 11 to 17 percent longer.
_STEPS_PER_PROMPT = 1.5
_MAX_STEPS = 9
_MAX_GAP_STEPS = 11
# A step for the first tokens of some rows delays those of the others: by at most a twentieth beside a longer
# pass.
_DELAYING_STEPS = 20
# Joins that take at most this share of a step are done right after a pass.
_SHORT_JOIN = 0.5
_GAP_SECONDS = 0.2
# Target times to first token that a prompt waits before gaps exceed those of many short prompts.
_MAX_LATENESS = 4.0
# Share of a turn by which it may grow to end its pass, which would need another one.
_FINISHING_SHARE = 0.25
_MAX_MEASURED_STEPS = 32
# Assumed duration of a decode step before the first measurement, as a share of the turn.
_UNMEASURED_STEP = 0.05
# Tokens of padding that a pass may add before the first measurement.
_UNMEASURED_PADDING_TOKENS = 32


class StepCosts:
    """Duration of decode steps by number of rows.

    Rows are counted in doublings; the duration is the lower quartile of the last steps.
    """

    def __init__(self) -> None:
        self._alone: dict[int, deque[float]] = {}
        self._beside_prefill: dict[int, deque[float]] = {}

    def observe(self, seconds: float, *, rows: int, alone: bool) -> None:
        """Add the duration of a decode step.

        `alone` means that no prefill ran before or after it. Other steps count only while none that was alone
        was measured for this number of rows.
        """
        measured = self._alone if alone else self._beside_prefill
        measured.setdefault(rows.bit_length(), deque(maxlen=_MAX_MEASURED_STEPS)).append(seconds)

    def seconds(self, rows: int) -> float | None:
        """Return the duration for the nearest known number of rows.

        None before the first.
        """
        size = rows.bit_length()
        alone, beside = _nearest(self._alone, size), _nearest(self._beside_prefill, size)
        if alone is None or beside is None:
            known = alone or beside
            return known[1] if known is not None else None
        if abs(alone[0] - size) <= abs(beside[0] - size):
            return alone[1]
        # A step takes no less time than one of fewer rows.
        return max(alone[1], beside[1]) if beside[0] > alone[0] else min(alone[1], beside[1])


def _nearest(measured: Mapping[int, Iterable[float]], size: int) -> tuple[int, float] | None:
    """Return the measured size that is nearest, with its duration."""
    if not measured:
        return None
    nearest = min(measured, key=lambda other: (abs(other - size), other))
    return nearest, lower_quartile(measured[nearest])


class PrefillPacer:
    """Sizes prefill passes and turns by the policy above.

    `rows` decode beside a pass, 0 for none. `num_waiting` prompts wait for prefill. `lateness` is the longest
    wait of them in target times to first token; from 1 on, a prompt is overdue. `context` tokens come before
    the pass. `turn_seconds` bounds a turn without decoding rows, `max_tokens` any pass, `memory` one over
    part of a prompt.
    """

    def __init__(
        self,
        *,
        turn_seconds: float,
        max_tokens: int,
        gap_seconds: float | None = None,
        num_layers: int = 1,
        memory: PassMemory = UNBOUNDED_PASSES,
    ) -> None:
        # The cache of the first layer costs only a projection.
        self._max_turns = max(1, num_layers - 1)
        self._turn_seconds = turn_seconds
        self.max_tokens = max_tokens
        self._memory = memory
        self.gap_seconds = gap_seconds
        self._passes = PassCosts()
        self._steps = StepCosts()
        self._joins = StepCosts()
        self._last_step: float | None = None

    def turn(self, *, rows: int, num_waiting: int = 1, lateness: float = 0.0) -> TurnLimit:
        """Return how long a turn of a pass may take.

        Beside rows, a turn that ends its pass makes no longer gap than many short prompts do.
        """
        if not rows:
            seconds = self._seconds_alone()
            return TurnLimit(seconds=seconds, finishing_seconds=(1 + _FINISHING_SHARE) * seconds)
        target = self._seconds_beside(rows, num_waiting=num_waiting, lateness=lateness)
        seconds = target + self._overlap_seconds(rows)
        if self.gap_seconds is not None:
            return TurnLimit(seconds=seconds, finishing_seconds=seconds)
        longest = _MAX_GAP_STEPS * self._single_row_step() - self._step_after_pass(rows)
        longer = min((1 + _FINISHING_SHARE) * seconds, longest)
        return TurnLimit(seconds=seconds, finishing_seconds=max(seconds, longer))

    def part_tokens(
        self, num_remaining: int, *, rows: int, num_waiting: int = 1, lateness: float = 0.0, context: int = 0
    ) -> int:
        """Return the size of the next pass over part of a prompt."""
        largest = self.pass_tokens(rows=rows, num_waiting=num_waiting, lateness=lateness, context=context)
        num_passes = max(1, math.ceil(num_remaining / largest))
        return math.ceil(num_remaining / num_passes)

    def pass_tokens(self, *, rows: int, num_waiting: int = 1, lateness: float = 0.0, context: int = 0) -> int:
        """Return how many tokens of one prompt a pass may have."""
        layer = 2 * self._seconds_alone()
        if rows:
            layer = self._seconds_beside(rows, num_waiting=num_waiting, lateness=lateness)
        # Without layers to stop at, a pass beside rows is one turn.
        least = 1 if rows and self._max_turns == 1 else self._least_tokens(rows, context)
        most = self._memory.largest_pass(context, maximum=self.max_tokens)
        return self._tokens(layer * self._max_turns, context, least=least, most=most)

    def batch_tokens(self, *, rows: int, lateness: float = 0.0, context: int = 0) -> int:
        """Return the size, with padding, of a pass that ends several prompts.

        Beside rows, also of one that ends a prompt in one turn.
        """
        cost = self._cost(context)
        if rows:
            seconds = self._mixed_pass_seconds(rows, steps=_MAX_STEPS, lateness=lateness)
            return cost.tokens_within(seconds, maximum=self.max_tokens) if cost is not None else 0
        overhead = self._single_row_step() + (cost.fixed if cost is not None else 0.0)
        seconds = min(_BATCHED_OVERHEADS * overhead, 2 * self._seconds_alone() * self._max_turns)
        return self._tokens(seconds, context, least=self._least_tokens(0, context), most=self.max_tokens)

    def delays_first_tokens(self, num_tokens: int) -> bool:
        """Whether first tokens wait for the rest of their burst."""
        cost = self._cost(0)
        return cost is not None and cost.seconds(num_tokens) <= _DELAYING_STEPS * self._single_row_step()

    def break_even_tokens(self, *, rows: int, context: int = 0) -> int:
        """Return how many tokens cost as much as a second pass.

        The rows of a second pass are joined with the others, `rows` and those of the first pass.
        """
        cost = self._cost(context)
        if cost is None:
            return _UNMEASURED_PADDING_TOKENS
        joins = self._joins.seconds(rows) or 0.0
        return cost.tokens_within(2 * cost.fixed + joins, maximum=self.max_tokens)

    def observe_decode(self, seconds: float, *, rows: int = 1, alone: bool) -> None:
        """Add the duration of a decode step.

        This is the time for which the step kept the thread, including the start of the next step.
        """
        self._last_step = seconds
        self._steps.observe(seconds, rows=rows, alone=alone)

    def observe_join(self, seconds: float, *, rows: int) -> None:
        """Add the duration of a decode step that joined its rows first."""
        self._joins.observe(seconds - (self._steps.seconds(rows) or 0.0), rows=rows, alone=True)

    def joins_separately(self, rows: int) -> bool:
        """Whether rows are joined in a separate decode step.

        True where a join right after a prefill pass would lengthen a gap by much.
        """
        seconds = self._joins.seconds(rows)
        return seconds is not None and seconds > _SHORT_JOIN * self._single_row_step()

    def added_seconds(self, seconds: float, *, rows: int) -> float:
        """Return how much a turn adds to the decode step before it."""
        return max(seconds - self._overlap_seconds(rows), seconds / 8)

    def observe_prefill(
        self, num_tokens: int, seconds: float, *, rows: int, context: int = 0, earlier_seconds: float = 0.0
    ) -> None:
        """Add the duration of a pass, or of its last turn.

        `earlier_seconds` are the sum of `added_seconds` of the other turns.
        """
        seconds = earlier_seconds + self.added_seconds(seconds, rows=rows)
        if num_tokens > 0 and seconds > 0:
            self._passes.observe(num_tokens, seconds, context=context + num_tokens // 2)

    def _overlap_seconds(self, rows: int) -> float:
        """Return the part of a decode step that overlaps the next pass.

        On Metal a step runs while the pass is prepared, on a CPU it does not.
        """
        step = self._steps.seconds(rows)
        return max(0.0, step - self._last_step) if rows and step and self._last_step is not None else 0.0

    def _seconds_alone(self) -> float:
        """Return the duration of a turn without decoding rows."""
        return min(_STEPS_ALONE * self._single_row_step(), self._turn_seconds)

    def _seconds_beside(self, rows: int, *, num_waiting: int, lateness: float) -> float:
        """Return the target duration of a turn beside rows."""
        steps = min(_STEPS_PER_PROMPT * num_waiting, _MAX_STEPS)
        return self._mixed_pass_seconds(rows, steps=steps, lateness=lateness)

    def _mixed_pass_seconds(self, rows: int, *, steps: float, lateness: float) -> float:
        """Return the target duration of a pass beside rows.

        The decode step after it is part of the same gap.
        """
        single_row, step = self._single_row_step(), self._steps.seconds(rows) or self._single_row_step()
        usual_gap = (_MAX_STEPS + 1) * single_row
        gap = max(_GAP_SECONDS, usual_gap) if self.gap_seconds is None else self.gap_seconds
        # A step of many rows is long already, so that the pass is measured against it instead, with a gap of
        # at most eleven steps of one row or two of many.
        beside_many = max(step, min(_STEPS_PER_PROMPT * step, _MAX_GAP_STEPS * single_row - step))
        wanted = max(steps * single_row - (step - single_row), beside_many)
        if lateness >= 1:
            late_gap = gap if self.gap_seconds is not None else usual_gap * max(1.0, lateness / _MAX_LATENESS)
            wanted = max(wanted, late_gap - step)
        return min(wanted, gap - self._step_after_pass(rows))

    def _step_after_pass(self, rows: int) -> float:
        """Return the duration of the step after a pass that finishes prompts.

        It may have one more group.
        """
        single_row = self._single_row_step()
        step = self._steps.seconds(rows) or single_row
        return step + single_row if self.joins_separately(rows) else step

    def _single_row_step(self) -> float:
        """Return the duration of a one-row step, at first a guess."""
        seconds = self._steps.seconds(1)
        return _UNMEASURED_STEP * self._turn_seconds if seconds is None else seconds

    @staticmethod
    def _least_tokens(rows: int, context: int) -> int:
        """Return the least size of a pass.

        It is larger without rows, where the duration of a layer matters less.
        """
        least = _LEAST_TOKENS * _HALVING_CONTEXT // (_HALVING_CONTEXT + context)
        return max(least, _FEWEST_TOKENS) * (1 if rows else 2)

    def _tokens(self, seconds: float, context: int, *, least: int, most: int) -> int:
        """Return the size of a pass of `seconds`, within these bounds."""
        cost = self._cost(context)
        if cost is None:
            return min(least, most)
        seconds = max(seconds, _LEAST_FIXED_COSTS * cost.fixed)
        return min(max(cost.tokens_within(seconds, maximum=most), least), most)

    def _cost(self, context: int) -> PassCost | None:
        return self._passes.cost(context=context)
