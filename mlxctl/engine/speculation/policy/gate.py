"""Speculation gate: decides from measured seconds whether drafts pay. Pure arithmetic.

A block of k draft tokens pays if (tokens per pass) / (seconds per pass) is higher than without a draft. Both
sides are measured: seconds for each batch width and context length, acceptance for each class of evidence.
A probe is a block that is measured although it may not pay; probes take a small share of all decode time.
"""

from collections import abc
from dataclasses import dataclass, field

from mlxctl.engine.speculation.policy.drafter import MAX_DRAFT_TOKENS

_BLOCKS = (1, 2, 3, 5, MAX_DRAFT_TOKENS)
# Draft tokens are tried when they promise this gain; measured seconds vary by about as much.
_MIN_GAIN = 1.05
_NUM_PLAIN_STEPS = 4
_MAX_GROWTH = 1.5
# After this number of verified blocks some steps run without a draft, so that both sides stay measured.
_PLAIN_EVERY = 256
_PROBE_BUDGET = 0.005
# Steps until the costs are compared again, where not even the best draft pays.
_CLOSED_STEPS = 16
_MIN_PROBE_STEPS, _MAX_PROBE_STEPS = 64, 4096
# First guess of what a draft token adds to a pass.
_GUESSED_COST = 0.1
_CONTEXT_TOKENS = 1024
_MAX_WIDTH = 64


@dataclass(slots=True)
class Mean:
    """Exponential moving average of seconds, which begins as the plain mean."""

    seconds: float = 0.0
    count: int = 0

    def add(self, seconds: float) -> None:
        """Add a measurement, of at most 1.5 times the mean.

        A single pause of the machine says nothing about the next step.
        """
        if self.count >= _NUM_PLAIN_STEPS:
            seconds = min(seconds, _MAX_GROWTH * self.seconds)
        self.count = min(self.count + 1, 16)
        self.seconds += (seconds - self.seconds) / self.count


@dataclass(slots=True)
class Acceptance:
    """How many draft tokens were accepted. Old ones fade.

    Tokens after a rejected one are not `tested`.
    """

    accepted: float = 1.5
    tested: float = 2.0

    @property
    def rate(self) -> float:
        """Probability that the next draft token is accepted."""
        return self.accepted / self.tested

    def add(self, accepted: int, tested: int, *, memory: float) -> None:
        """Add the outcome of a block.

        `memory` is the share that is left of the earlier ones.
        """
        self.accepted = self.accepted * memory + accepted
        self.tested = self.tested * memory + tested


@dataclass(slots=True)
class PassSeconds:
    """Seconds of decode steps with and without drafts.

    Of one batch width and context length. `spent` are all seconds, `lost` those that drafts cost more than
    they saved.
    """

    plain: Mean = field(default_factory=Mean)
    blocks: dict[int, Mean] = field(default_factory=dict)
    spent: float = 0.0
    lost: float = 0.0

    def resumed(self) -> "PassSeconds":
        """Return a copy for the next start; its means adapt quickly."""
        blocks = {num: Mean(mean.seconds, min(mean.count, 1)) for num, mean in self.blocks.items()}
        return PassSeconds(Mean(self.plain.seconds), blocks, self.spent, self.lost)

    def of_block(self, num_draft_tokens: int) -> float:
        """Return the seconds of a pass, measured or estimated."""
        if (mean := self.blocks.get(num_draft_tokens)) is not None:
            return mean.seconds
        known = min(self.blocks, key=lambda num: abs(num - num_draft_tokens), default=None)
        per_token = _GUESSED_COST * self.plain.seconds
        if known is not None:
            per_token = max((self.blocks[known].seconds - self.plain.seconds) / known, 0.0)
        return self.plain.seconds + per_token * num_draft_tokens


@dataclass(frozen=True, slots=True)
class DraftOdds:
    """Length and acceptance of a row's draft.

    `rate` is the probability of each token once those before it were accepted.
    """

    num_tokens: int
    rate: float

    def expected(self, num_tokens: int) -> float:
        """Return the expected number of accepted tokens of the first `num_tokens`."""
        return sum(self.rate**place for place in range(1, min(num_tokens, self.num_tokens) + 1))


class SpeculationGate:
    """Measured costs and acceptance of one drafter on one model."""

    def __init__(self) -> None:
        self.seconds: dict[tuple[int, int], PassSeconds] = {}
        self.acceptance: dict[int, Acceptance] = {}
        self._num_blocks_in_turn = 0
        self._num_plain_in_turn = 0
        self._num_since_probe = 0
        self._probe_interval = _MIN_PROBE_STEPS
        self._is_probe = False
        self._num_closed_steps = 0

    def rate(self, evidence: int) -> Acceptance:
        """Return the acceptance of a class of evidence."""
        return self.acceptance.setdefault(evidence, Acceptance())

    @property
    def is_closed(self) -> bool:
        """Whether no draft can be used in the next step.

        It is read before every step, so it is only what `block_length` has decided.
        """
        return self._num_closed_steps > 0

    def block_length(self, width: int, context: int, drafts: abc.Sequence[DraftOdds]) -> int:
        """Return how many draft tokens to verify next, or 0.

        `drafts` are those of the rows that have one; `context` is the longest row's.
        """
        costs = self._costs(width, context)
        self._is_probe = False
        if not drafts or costs.plain.count < _NUM_PLAIN_STEPS or self._refreshes_plain:
            return 0
        if block := self._best_block(costs, width, drafts):
            # The first block only measures what a draft token costs, so it is short.
            return block if costs.blocks else min(block, _BLOCKS[1])
        if self._may_probe(costs):
            self._is_probe = True
            return min(_BLOCKS[1], max(each.num_tokens for each in drafts))
        best_rate = max((each.rate for each in self.acceptance.values()), default=1.0)
        if not self._best_block(costs, width, [DraftOdds(MAX_DRAFT_TOKENS, best_rate)] * width):
            self._num_closed_steps = _CLOSED_STEPS
        return 0

    def observe_plain(self, width: int, context: int, seconds: float) -> None:
        """Add a decode step without drafts, which came after another one."""
        costs = self._costs(width, context)
        costs.plain.add(seconds)
        costs.spent += seconds
        self._num_since_probe += 1
        self._num_closed_steps = max(self._num_closed_steps - 1, 0)
        if self._refreshes_plain:
            self._num_plain_in_turn += 1
            if self._num_plain_in_turn >= _NUM_PLAIN_STEPS:
                self._num_blocks_in_turn = self._num_plain_in_turn = 0

    def observe_block(
        self, width: int, context: int, *, num_draft_tokens: int, num_emitted: int, seconds: float
    ) -> None:
        """Add a step that verified drafts of up to `num_draft_tokens`.

        `num_emitted` are the tokens of all rows.
        """
        costs = self._costs(width, context)
        if num_draft_tokens in costs.blocks:
            costs.blocks[num_draft_tokens].add(seconds)
        else:
            # The first pass of a new width may compile kernels; the next one replaces what is kept of it.
            costs.blocks[num_draft_tokens] = Mean(min(seconds, costs.of_block(num_draft_tokens)))
        costs.spent += seconds
        # Time that drafts saved is not credited against later losses.
        costs.lost = max(0.0, costs.lost + seconds - costs.plain.seconds * num_emitted / width)
        self._num_blocks_in_turn += 1
        if self._is_probe:
            has_gained = seconds < costs.plain.seconds * num_emitted / width
            self._probe_interval = (
                _MIN_PROBE_STEPS if has_gained else min(2 * self._probe_interval, _MAX_PROBE_STEPS)
            )
            self._num_since_probe = 0

    @property
    def _refreshes_plain(self) -> bool:
        return self._num_blocks_in_turn >= _PLAIN_EVERY

    def _may_probe(self, costs: PassSeconds) -> bool:
        loss = costs.of_block(_BLOCKS[1]) - costs.plain.seconds
        return (
            self._num_since_probe >= self._probe_interval and costs.lost + loss <= _PROBE_BUDGET * costs.spent
        )

    @staticmethod
    def _best_block(costs: PassSeconds, width: int, drafts: abc.Sequence[DraftOdds]) -> int:
        """Return the fastest block length, 0 if none pays."""
        longest = max(each.num_tokens for each in drafts)
        best, best_speed = 0, _MIN_GAIN * width / costs.plain.seconds
        for block in sorted({min(block, longest) for block in _BLOCKS}):
            tokens = width + sum(each.expected(block) for each in drafts)
            if (speed := tokens / costs.of_block(block)) > best_speed:
                best, best_speed = block, speed
        return best

    def _costs(self, width: int, context: int) -> PassSeconds:
        key = cost_class(width, context)
        if (costs := self.seconds.get(key)) is None:
            costs = self.seconds[key] = PassSeconds()
        return costs


def cost_class(width: int, context: int) -> tuple[int, int]:
    """Return the class of steps that are measured together.

    These are the number of rows, and of doublings of 1,024 tokens.
    """
    rows = width if width <= 8 else min(1 << (width - 1).bit_length(), _MAX_WIDTH)
    return rows, (context // _CONTEXT_TOKENS).bit_length()
