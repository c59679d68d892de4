"""Prefill pacer: sizes of prefill passes, from measured costs. Pure; MLX thread.

Policy, in steps (the duration of a decode step of one row) and seconds:

- Without decoding rows, a pass over part of one prompt takes five steps, which bounds the wait of a short
  request that arrives meanwhile; several prompts are finished in one pass of up to `slice_seconds`.
- Beside decoding rows, a turn takes 1.5 steps for each waiting prompt, up to `_MAX_STEPS`. A pass over part
  of a long prompt is computed in turns of one layer or more, so that it is larger, and a token of it cheaper,
  than what fits into one turn. Passes that finish prompts may always take the most, since they end with first
  tokens. So one long prompt makes the gap between two tokens 2.5 steps, many short ones ten.
- New rows join the others in the decode step after the next one, where joining takes longer than half a step:
  right after a pass it would lengthen the same gap.
- Beside rows of the same burst, prompts are finished as if nothing decoded.
- A prompt that has waited for the target time to first token is overdue: passes then fill a configured target
  gap. Without one, a gap is ten steps while the wait is up to four times the target, then in proportion to
  the wait.
- A pass or turn may grow by a quarter if it then leaves no remainder, which would need another.
- The gap never exceeds the target gap on purpose. Without a configured one it is `_GAP_SECONDS`, or what many
  short prompts may take if that is more. A pass takes at least 1.5 times its fixed cost, since one that
  mostly reads weights makes no progress.
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from mlxctl.engine.scheduling.pass_costs import PassCost, PassCosts, lower_quartile
from mlxctl.engine.scheduling.prefill_progress import MeasuredPass
from mlxctl.ir.pass_memory import UNBOUNDED_PASSES, PassMemory

_ALONE_STEPS = 5
# Measured beside 8,000 tokens (5M parameters, 2 cores): p99 gaps of 3.8 steps, 4.7 with 2; simulated, the
# prompt takes 11 to 17 percent longer.
_STEPS_PER_PROMPT = 1.5
# Smallest duration of a pass beside rows, in fixed costs of a pass.
_MIN_PASS_COST = 1.5
_MAX_STEPS = 9
_MAX_GAP_STEPS = 11
# Joins that take at most this share of a step are done right after a pass.
_SHORT_JOIN = 0.5
_GAP_SECONDS = 0.2
# Target times to first token that a prompt waits before gaps exceed those of many short prompts.
_MAX_LATENESS = 4.0
# Tokens of the first pass, before any measurement.
_FIRST_TOKENS = 128
_FIRST_TOKENS_BESIDE_ROWS = 32
# Share of a pass, or of a turn, by which it may grow to leave no remainder, which would need another.
_FINISHING_SHARE = 0.25
# Largest growth of a pass over the largest measured one: beyond it, the cost is a guess. A pass that finishes
# prompts ends with first tokens, so it may grow faster.
_GROWTH = 2
_FINAL_GROWTH = 4
# Least growth of a pass that measures a second size: two prompts a little longer than the first one.
_TRIAL_GROWTH = 2.5
# Context after which attention takes as long as the rest of a pass. Measured with 5M parameters on 2 cores;
# for larger models it is longer, and passes are a little smaller than they could be.
_ATTENTION_CONTEXT = 512
# Without decoding rows: ratio of the tokens' cost to the fixed cost, if that fits into the slice.
_ALONE_BALANCE = 3
_MAX_MEASURED_STEPS = 32
_TRY_SHORTER_EVERY = 4
# Assumed duration of a decode step before the first measurement, as a share of the slice.
_UNMEASURED_STEP = 0.05


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
    """Sizes prefill passes by the policy above.

    `rows` decode beside a pass, 0 for none. `num_waiting` prompts wait for prefill. `lateness` is the longest
    wait of them in target times to first token; from 1 on, a prompt is overdue. `is_burst`: the rows arrived
    together with the prompts. `slice_seconds` bounds a pass without decoding rows, `max_tokens` any pass,
    `memory` one over part of a prompt.
    """

    def __init__(
        self,
        *,
        slice_seconds: float,
        max_tokens: int,
        gap_seconds: float | None = None,
        num_layers: int = 1,
        memory: PassMemory = UNBOUNDED_PASSES,
    ) -> None:
        # The cache of the first layer costs only a projection.
        self._max_turns = max(1, num_layers - 1)
        self._slice_seconds = slice_seconds
        self._max_tokens = max_tokens
        self._memory = memory
        self.gap_seconds = gap_seconds
        self._passes = PassCosts()
        self._steps = StepCosts()
        self._joins = StepCosts()
        self._last_step: float | None = None

    def turn_seconds(self, *, rows: int, num_waiting: int = 1, lateness: float = 0.0) -> float:
        """Return how long a turn of a pass may take.

        A turn is the whole pass over part of a prompt, or some of its layers.
        """
        target = self._turn_target(rows=rows, num_waiting=num_waiting, lateness=lateness)
        return target + self._overlap_seconds(rows)

    def chunk_tokens(
        self,
        *,
        rows: int,
        num_waiting: int = 1,
        lateness: float = 0.0,
        context: int = 0,
        last_passes: Sequence[MeasuredPass] = (),
    ) -> int:
        """Return the size of the next pass over part of a prompt.

        `last_passes` are those of the prompt. Beside rows, the next one is so large that one layer of it
        takes a turn: its size follows from the quickest of them, since delays only lengthen a pass, and from
        the growth of the context.
        """
        seconds = self._turn_target(rows=rows, num_waiting=num_waiting, lateness=lateness)
        most = self._largest_part(context)
        if not rows or self._max_turns == 1 or not last_passes:
            return self._tokens(seconds, rows, context, most=most)
        last_tokens = last_passes[-1].num_tokens
        seconds_per_token = min(
            duration / num_tokens / (_ATTENTION_CONTEXT + before + num_tokens / 2)
            for num_tokens, duration, before in last_passes
        ) * (_ATTENTION_CONTEXT + context + last_tokens / 2)
        wanted = max(int(seconds * self._max_turns / seconds_per_token), self._least_tokens(context))
        return max(1, min(max(wanted, last_tokens // _GROWTH), _GROWTH * last_tokens, most))

    def final_pass_tokens(
        self, *, rows: int, lateness: float = 0.0, is_burst: bool = False, context: int = 0
    ) -> int:
        """Return the size, with padding, of the next pass that finishes prompts."""
        if not rows:
            # Prompts prefilled apart are joined later, at the cost of a copy.
            target = self._slice_seconds
        elif is_burst and self.gap_seconds is None:
            target = max(self._slice_seconds, _MAX_STEPS * self._single_row_step())
        else:
            target = self._mixed_pass_seconds(
                rows, steps=_MAX_STEPS, lateness=math.inf if is_burst else lateness
            )
        return self._tokens(target, rows, context, most=self._max_tokens, growth=_FINAL_GROWTH)

    def finishing_seconds(self, seconds: float, *, rows: int) -> float:
        """Return how long a turn may take to end its pass.

        Beside rows, the gap is not longer than many short prompts make it.
        """
        longer = (1 + _FINISHING_SHARE) * seconds
        if not rows:
            return longer
        if self.gap_seconds is not None:
            return seconds
        longest = _MAX_GAP_STEPS * self._single_row_step() - self._step_after_pass(rows)
        return max(seconds, min(longer, longest))

    def finishing_tokens(self, num_tokens: int, *, rows: int, is_burst: bool) -> int:
        """Return how large a pass may be to leave no prompt."""
        if rows and (not is_burst or self.gap_seconds is not None):
            return num_tokens
        return min(int((1 + _FINISHING_SHARE) * num_tokens), self._max_tokens)

    def may_end(self, num_remaining: int, num_tokens: float, *, context: int) -> bool:
        """Whether a pass of up to `num_tokens` may end a prompt."""
        return num_remaining <= min(int(num_tokens), self._largest_part(context))

    def break_even_tokens(self, *, rows: int, context: int = 0) -> int:
        """Return how many tokens cost as much as a second pass.

        The rows of a second pass are joined with the others, `rows` and those of the first pass.
        """
        cost = self._cost(context)
        if cost is None:
            return self._first_tokens(rows=1)
        joins = self._joins.seconds(rows) or 0.0
        return cost.tokens_within(2 * cost.fixed + joins, maximum=self._largest)

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
    ) -> float:
        """Add the duration of a pass, or of its last turn.

        `earlier_seconds` are the sum of `added_seconds` of the other turns. Returns that of all.
        """
        seconds = earlier_seconds + self.added_seconds(seconds, rows=rows)
        if num_tokens > 0 and seconds > 0:
            self._passes.observe(num_tokens, seconds, context=context + num_tokens // 2)
        return seconds

    def _overlap_seconds(self, rows: int) -> float:
        """Return the part of a decode step that overlaps the next pass.

        On Metal a step runs while the pass is prepared, on a CPU it does not.
        """
        step = self._steps.seconds(rows)
        return max(0.0, step - self._last_step) if rows and step and self._last_step is not None else 0.0

    def _turn_target(self, *, rows: int, num_waiting: int, lateness: float) -> float:
        """Return the target duration of a turn."""
        if not rows:
            return min(_ALONE_STEPS * self._single_row_step(), self._slice_seconds)
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
        return _UNMEASURED_STEP * self._slice_seconds if seconds is None else seconds

    def _tokens(self, target: float, rows: int, context: int, *, most: int, growth: int = _GROWTH) -> int:
        """Return the size of a pass of `target` seconds.

        Never less than the smallest reasonable size, and at most `growth` times the largest measured one, or
        `most`.
        """
        cost, largest = self._cost(context), self._passes.largest
        maximum = min(most, growth * largest)
        if cost is None:
            return min(self._first_tokens(rows), most)
        if self._passes.has_one_size:
            # Measure a second size at once: one alone cannot separate the fixed part from the part per token.
            fitting = cost.tokens_within(self._slice_seconds, maximum=maximum)
            return fitting if fitting >= min(_TRIAL_GROWTH * largest, maximum) else max(1, largest // 2)
        wanted = cost.tokens_within(target, maximum=maximum)
        alone = max(2 * cost.fixed, min((1 + _ALONE_BALANCE) * cost.fixed, self._slice_seconds))
        least = _MIN_PASS_COST * cost.fixed if rows else alone
        reasonable = cost.tokens_within(least, maximum=maximum)
        if wanted < reasonable and self._passes.num_observed % _TRY_SHORTER_EVERY == 0:
            # Delays look like a fixed cost, so a pass of half the size is measured now and then.
            reasonable //= 2
        return max(1, wanted, reasonable)

    def _cost(self, context: int) -> PassCost | None:
        return self._passes.cost(context=context, step_seconds=self._steps.seconds(1))

    def _least_tokens(self, context: int) -> int:
        """Return the size below which a pass mostly reads weights and context."""
        cost = self._cost(context)
        return 0 if cost is None else cost.tokens_within(_MIN_PASS_COST * cost.fixed, maximum=self._largest)

    def _largest_part(self, context: int) -> int:
        """Return the largest pass over part of a prompt, after `context` tokens."""
        return self._memory.largest_pass(context, maximum=self._max_tokens)

    def _first_tokens(self, rows: int) -> int:
        return min(_FIRST_TOKENS_BESIDE_ROWS if rows else _FIRST_TOKENS, self._max_tokens)

    @property
    def _largest(self) -> int:
        return min(self._max_tokens, _GROWTH * self._passes.largest)
