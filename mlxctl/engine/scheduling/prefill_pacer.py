"""How many prompt tokens one pass may read, from measured costs, by a stated policy.

Pure; owned by the engine's thread.

The policy, in decode steps (what one stream alone feels between two tokens) and in milliseconds:

- Nothing decodes: a pass over one prompt takes five steps, so that a short request that arrives meanwhile
  waits no longer; several prompts are read to their end in one pass of up to `slice_seconds`.
- Rows decode: every prompt that waits buys two steps of a pass, up to `_MOST_STEPS`. Prompts that a pass
  reads to their end may always have the most, since it ends with their first tokens. So one long prompt makes
  the gap between two tokens three steps, and many short ones make it ten.
- Only rows decode that came together with the prompts: they are read as if nothing decoded, since no stream
  is interrupted.
- A prompt has got nothing for the target time to first token: passes may take so long that the gap is the
  target gap. The prompt that waits longest sets the pace.
- The gap is never meant to be longer than the target gap. Where the operator set none, it is `_GAP_SECONDS`
  or, if that is more, what many short prompts may have. A pass is never shorter than 1.5 times its fixed
  cost: one that only reads weights is of no use.
"""

from collections import deque

from mlxctl.engine.scheduling.pass_costs import PassCost, PassCosts, lower_quartile

_ALONE_STEPS = 5
_STEPS_PER_PROMPT = 2
_MOST_STEPS = 9
_GAP_SECONDS = 0.2
# Tokens of the first pass, before anything was measured.
_FIRST_TOKENS = 128
_FIRST_TOKENS_BESIDE_ROWS = 32
# A pass is at most so many times as long as the longest one measured: what lies beyond is a guess.
_GROWTH = 2
# In a pass while nothing decodes, tokens cost so many times as much as the pass itself, where that fits into
# the slice.
_ALONE_BALANCE = 3
# Beside rows a pass takes at least so many times its fixed cost. Measured on two cores (x86, OpenBLAS, 5M
# parameters), where a pass costs more than a decode step: with 2 the p99 gap beside a long prompt was 7.9
# idle gaps, with 1.5 it is 4.4.
_LEAST_FIXED_COSTS = 1.5
_KEPT_STEPS = 32
_TRY_SHORTER_EVERY = 4
# Until a decode step was measured, one is taken to last for this share of the longest slice.
_UNMEASURED_STEP = 0.05


class StepCosts:
    """How long a decode step takes, by the number of rows in doublings: a quick one of the last."""

    def __init__(self) -> None:
        self._alone: dict[int, deque[float]] = {}
        self._mixed_pass_seconds: dict[int, deque[float]] = {}

    def observe(self, seconds: float, *, rows: int, alone: bool) -> None:
        """Take a step of so many rows; one that was not `alone`, between passes, counts until one that was is
        known.
        """
        kept = self._alone if alone else self._mixed_pass_seconds
        kept.setdefault(rows.bit_length(), deque(maxlen=_KEPT_STEPS)).append(seconds)

    def seconds(self, rows: int) -> float | None:
        """Return the duration of a step of so many rows, or of the nearest number known; None before the
        first step.
        """
        kept, size = self._alone or self._mixed_pass_seconds, rows.bit_length()
        return lower_quartile(kept[min(kept, key=lambda other: (abs(other - size), other))]) if kept else None


class PrefillPacer:
    """Sizes passes over prompts by the policy above.

    `rows` decode beside a pass, 0 for none. `num_waiting` prompts wait to be read. `is_overdue` says that one of
    them has waited for the target time to first token, `is_burst` that the rows came together with them.
    `slice_seconds` bounds a pass while nothing decodes, `max_tokens` the size of any.
    """

    def __init__(self, *, slice_seconds: float, max_tokens: int, gap_seconds: float | None = None) -> None:
        self._slice_seconds = slice_seconds
        self._max_tokens = max_tokens
        self._gap_seconds = gap_seconds
        self._passes = PassCosts()
        self._steps = StepCosts()
        self._last_step: float | None = None

    def chunk_tokens(
        self, *, rows: int, num_waiting: int = 1, is_overdue: bool = False, context: int = 0
    ) -> int:
        """Return how many tokens the next pass over a part of one prompt may have."""
        if rows:
            target = self._mixed_pass_seconds(
                rows, steps=min(_STEPS_PER_PROMPT * num_waiting, _MOST_STEPS), is_overdue=is_overdue
            )
        else:
            target = min(_ALONE_STEPS * self._single_row_step(), self._slice_seconds)
        return self._tokens(target, rows, context)

    def final_pass_tokens(
        self, *, rows: int, is_overdue: bool = False, is_burst: bool = False, context: int = 0
    ) -> int:
        """Return how many tokens, with padding, the next pass may have that reads prompts to their end."""
        if not rows:
            # What is read apart is joined later, and then everything is copied once more.
            target = self._slice_seconds
        elif is_burst and self._gap_seconds is None:
            target = max(self._slice_seconds, _MOST_STEPS * self._single_row_step())
        else:
            target = self._mixed_pass_seconds(rows, steps=_MOST_STEPS, is_overdue=is_overdue or is_burst)
        return self._tokens(target, rows, context)

    def break_even_tokens(self, *, context: int = 0) -> int:
        """Return the size at which a pass' tokens cost as much as the pass itself: up to it, padding is
        cheaper than a pass.
        """
        cost = self._cost(context)
        return (
            self._first_tokens(rows=1)
            if cost is None
            else cost.tokens_within(2 * cost.fixed, maximum=self._largest)
        )

    def observe_decode(self, seconds: float, *, rows: int = 1, alone: bool) -> None:
        """Take how long a decode step kept the thread, with starting the next: where starting blocks, most of
        it is there.
        """
        self._last_step = seconds
        self._steps.observe(seconds, rows=rows, alone=alone)

    def observe_prefill(self, num_tokens: int, seconds: float, *, rows: int, context: int = 0) -> None:
        """Take the duration of a pass.

        Where rows decode, what counts is how much longer pass and step take than a step alone.

        How the two share the time between them differs: on Metal a step runs on while the pass is prepared,
        on a CPU it does not.
        """
        step = self._steps.seconds(rows)
        if rows and step is not None and self._last_step is not None:
            overlap = max(0.0, step - self._last_step)
            seconds = max(seconds - overlap, seconds / 8)
        if num_tokens > 0 and seconds > 0:
            self._passes.observe(num_tokens, seconds, context=context + num_tokens // 2)

    def _mixed_pass_seconds(self, rows: int, *, steps: int, is_overdue: bool) -> float:
        """Return how long a pass beside rows should take; the step after it belongs to the same gap."""
        quick, step = self._single_row_step(), self._steps.seconds(rows) or self._single_row_step()
        gap = max(_GAP_SECONDS, (_MOST_STEPS + 1) * quick) if self._gap_seconds is None else self._gap_seconds
        # Beside many rows a step is long already, and what one stream alone feels is not the measure any
        # more.
        wanted = max(steps * quick - (step - quick), _STEPS_PER_PROMPT * step)
        return gap - step if is_overdue else min(wanted, gap - step)

    def _single_row_step(self) -> float:
        """Return the duration of a step of one row, a guess before the first step."""
        seconds = self._steps.seconds(1)
        return _UNMEASURED_STEP * self._slice_seconds if seconds is None else seconds

    def _tokens(self, target: float, rows: int, context: int) -> int:
        """Return the size of a pass that takes `target` seconds, or of one that is hardly longer than the
        pass itself.
        """
        cost, largest = self._cost(context), self._passes.largest
        if cost is None:
            return self._first_tokens(rows)
        if self._passes.has_one_size:
            # A second size is measured at once, because one alone does not tell a fixed cost from a cost per
            # token.
            double = min(self._max_tokens, 2 * largest)
            return max(1, largest // 2) if cost.seconds(double) > self._slice_seconds else double
        wanted = cost.tokens_within(target, maximum=self._largest)
        alone = max(2 * cost.fixed, min((1 + _ALONE_BALANCE) * cost.fixed, self._slice_seconds))
        least = _LEAST_FIXED_COSTS * cost.fixed if rows else alone
        reasonable = cost.tokens_within(least, maximum=self._largest)
        if wanted < reasonable and self._passes.num_observed % _TRY_SHORTER_EVERY == 0:
            # Delays look like a fixed cost. Whether a pass of half the size is really no shorter has to be
            # seen now and then.
            reasonable //= 2
        return max(1, wanted, reasonable)

    def _cost(self, context: int) -> PassCost | None:
        return self._passes.cost(context=context, step_seconds=self._steps.seconds(1))

    def _first_tokens(self, rows: int) -> int:
        return min(_FIRST_TOKENS_BESIDE_ROWS if rows else _FIRST_TOKENS, self._max_tokens)

    @property
    def _largest(self) -> int:
        return min(self._max_tokens, _GROWTH * self._passes.largest)
