"""Cost model of passes fitted to a few disturbed measurements."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.engine.scheduling.pass_costs import PassCost, PassCosts

SIZES = (16, 32, 64, 100, 128, 200, 256, 512)


def observed(
    *, fixed: float, per_token: float, sizes: tuple[int, ...] = SIZES, noise: float = 0.0
) -> PassCosts:
    costs, source = PassCosts(), random.Random(1)
    for num in sizes * 3:
        costs.observe(num, (fixed + per_token * num) * source.uniform(1, 1 + noise))
    return costs


@given(fixed=st.floats(0.0005, 0.5), per_token=st.floats(1e-5, 1e-2))
def test_fixed_cost_and_cost_per_token_are_separated(fixed: float, per_token: float) -> None:
    cost = observed(fixed=fixed, per_token=per_token).cost()

    assert cost is not None
    assert cost.fixed == pytest.approx(fixed, rel=0.05, abs=1e-6)
    assert cost.per_token == pytest.approx(per_token, rel=0.05)


def test_no_cost_before_first_pass() -> None:
    assert PassCosts().cost() is None


def test_half_of_a_single_pass_counts_as_fixed() -> None:
    costs = PassCosts()
    costs.observe(100, 0.05)

    cost = costs.cost()

    assert cost is not None
    assert (cost.fixed, cost.seconds(100)) == pytest.approx((0.025, 0.05))


@pytest.mark.parametrize("at", [0, 5, 20])
def test_outlier_is_ignored_among_passes_of_its_size(at: int) -> None:
    costs = PassCosts()
    for number, num in enumerate(SIZES * 3):
        costs.observe(num, 5.0 if number == at else 0.005 + 0.0002 * num)

    cost = costs.cost()

    assert cost is not None
    assert cost.seconds(100) == pytest.approx(0.025, rel=0.05)


def test_slow_first_pass_is_outweighed_by_other_sizes() -> None:
    costs = PassCosts()
    costs.observe(128, 3.0)
    for num in (8, 20, 50):
        costs.observe(num, 0.005 + 0.0002 * num)

    cost = costs.cost()

    assert cost is not None
    assert cost.seconds(50) < 0.03


def test_cost_follows_slower_machine() -> None:
    costs = observed(fixed=0.005, per_token=0.0002)
    for num in SIZES:
        costs.observe(num, 3 * (0.005 + 0.0002 * num))

    cost = costs.cost()

    assert cost is not None
    assert cost.seconds(100) == pytest.approx(0.075, rel=0.2)


def test_noise_gives_no_negative_cost() -> None:
    for noise in (0.2, 1.0, 5.0):
        cost = observed(fixed=0.0001, per_token=0.0005, noise=noise).cost()
        assert cost is not None
        assert cost.fixed >= 0
        assert cost.per_token >= 0
    falling = PassCosts()
    falling.observe(16, 0.5)
    falling.observe(256, 0.1)
    cost = falling.cost()
    assert cost is not None
    assert cost.per_token >= 0


def test_context_ranges_are_fitted_separately() -> None:
    costs = observed(fixed=0.005, per_token=0.0002)
    for _ in range(10):
        costs.observe(20, 0.1, context=30_000)

    short, long = costs.cost(context=100), costs.cost(context=32_000)

    assert short is not None
    assert long is not None
    assert short.seconds(20) == pytest.approx(0.009, rel=0.05)
    assert long.seconds(20) == pytest.approx(0.1, rel=0.05)
    assert long.fixed == pytest.approx(short.fixed, rel=0.05)


def test_pass_has_no_tokens_within_less_than_its_fixed_cost() -> None:
    assert PassCost(fixed=1.0, per_token=0.0).tokens_within(0.5, maximum=8) == 0
    assert PassCost(fixed=1.0, per_token=0.0).tokens_within(1.0, maximum=8) == 8
