"""The speculation gate uses drafts where measured seconds say that they pay."""

from random import Random

import pytest

from mlxctl.engine.speculation.policy.gate import Acceptance, DraftOdds, SpeculationGate

STEP = 0.010


class Machine:
    """A model and a drafter of known speed and quality.

    A block of k draft tokens takes 1 + k * `cost` steps; each is right at `rate`.
    """

    def __init__(self, *, cost: float, rate: float, width: int = 1) -> None:
        self.gate = SpeculationGate()
        self.cost, self.rate, self.width = cost, rate, width
        self.seconds, self.tokens, self.blocks = 0.0, 0, 0
        self._random = Random(1)

    def run(self, num_tokens: int) -> float:
        """Emit about `num_tokens` a row; return the speedup."""
        seconds, tokens = self.seconds, self.tokens
        while self.tokens - tokens < num_tokens * self.width:
            self._step()
        return (self.tokens - tokens) / self.width * STEP / (self.seconds - seconds)

    def _step(self) -> None:
        gate, width = self.gate, self.width
        block = 0
        if not gate.is_closed:
            odds = [DraftOdds(7, gate.rate(0).rate)] * width
            block = gate.block_length(width, 100, odds)
        seconds = STEP * (1 + block * self.cost) * self._random.uniform(0.9, 1.1)
        self.seconds += seconds
        if not block:
            self.tokens += width
            gate.observe_plain(width, 100, seconds)
            return
        self.blocks += 1
        accepted = [self._accepted(block) for _ in range(width)]
        for num in accepted:
            gate.rate(0).add(num, min(num + 1, block), memory=0.99)
        emitted = sum(accepted) + width
        self.tokens += emitted
        gate.observe_block(width, 100, num_draft_tokens=block, num_emitted=emitted, seconds=seconds)

    def _accepted(self, block: int) -> int:
        num = 0
        while num < block and self._random.random() < self.rate:
            num += 1
        return num


@pytest.mark.parametrize("width", [1, 8])
@pytest.mark.parametrize("cost", [0.05, 0.3, 1.0])
def test_hostile_drafter_costs_two_percent_at_most(cost: float, width: int) -> None:
    machine = Machine(cost=cost, rate=0.0, width=width)
    assert machine.run(500) > 0.98
    assert machine.run(2000) > 0.98
    assert machine.blocks


@pytest.mark.parametrize(("cost", "rate", "least"), [(0.05, 0.9, 3.0), (0.2, 0.9, 1.8), (0.1, 0.6, 1.4)])
def test_good_drafter_is_used(cost: float, rate: float, least: float) -> None:
    machine = Machine(cost=cost, rate=rate)
    machine.run(200)
    assert machine.run(1000) > least


def test_right_drafts_are_not_used_where_each_token_costs_a_step() -> None:
    machine = Machine(cost=1.0, rate=0.95)
    machine.run(300)
    assert machine.run(2000) > 0.98


def test_drafter_that_becomes_good_is_found_again() -> None:
    machine = Machine(cost=0.05, rate=0.0)
    machine.run(500)
    machine.rate = 0.95
    machine.run(6000)
    assert machine.run(500) > 2.0


def test_no_draft_before_plain_steps_were_measured() -> None:
    gate = SpeculationGate()
    assert gate.block_length(1, 100, [DraftOdds(7, 1.0)]) == 0
    gate.observe_plain(2, 100, STEP)
    assert gate.block_length(1, 100, [DraftOdds(7, 1.0)]) == 0


def test_gate_that_is_closed_opens_again() -> None:
    gate = SpeculationGate()
    gate.acceptance[0] = Acceptance(0.0, 100.0)
    for _ in range(8):
        gate.observe_plain(1, 100, STEP)
    assert not gate.is_closed
    assert gate.block_length(1, 100, [DraftOdds(7, 0.0)]) == 0
    assert gate.is_closed
    for _ in range(16):
        gate.observe_plain(1, 100, STEP)
    assert not gate.is_closed


def test_acceptance_forgets_old_blocks() -> None:
    acceptance = Acceptance(0.0, 0.0)
    for _ in range(200):
        acceptance.add(0, 1, memory=0.9)
    for _ in range(40):
        acceptance.add(3, 3, memory=0.9)
    assert acceptance.rate > 0.95
