"""What a pass costs is found from a few measured ones, whatever disturbs some of them."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.engine.scheduling.pass_costs import PassCosts

SIZES = (16, 32, 64, 100, 128, 200, 256, 512)


def observed(
    *, fixed: float, per_token: float, sizes: tuple[int, ...] = SIZES, noise: float = 0.0
) -> PassCosts:
    costs, source = PassCosts(), random.Random(1)
    for num in sizes * 3:
        costs.observe(num, (fixed + per_token * num) * source.uniform(1, 1 + noise))
    return costs


@given(fixed=st.floats(0.0005, 0.5), per_token=st.floats(1e-5, 1e-2))
def test_the_fixed_cost_and_the_cost_of_a_token_are_told_apart(fixed: float, per_token: float) -> None:
    cost = observed(fixed=fixed, per_token=per_token).cost()

    assert cost is not None
    assert cost.fixed == pytest.approx(fixed, rel=0.05, abs=1e-6)
    assert cost.per_token == pytest.approx(per_token, rel=0.05)


def test_nothing_is_known_before_the_first_pass() -> None:
    assert PassCosts().cost(step_seconds=0.01) is None


def test_after_one_pass_a_decode_step_says_what_the_pass_itself_costs_at_most() -> None:
    costs = PassCosts()
    costs.observe(100, 0.05)

    with_step, without = costs.cost(step_seconds=0.01), costs.cost()

    assert with_step is not None
    assert without is not None
    assert (with_step.fixed, with_step.seconds(100)) == (pytest.approx(0.01), pytest.approx(0.05))
    assert without.seconds(100) == pytest.approx(0.05)


@pytest.mark.parametrize("at", [0, 5, 20])
def test_an_outlier_says_nothing_once_others_of_its_size_are_known(at: int) -> None:
    costs = PassCosts()
    for number, num in enumerate(SIZES * 3):
        costs.observe(num, 5.0 if number == at else 0.005 + 0.0002 * num)

    cost = costs.cost()

    assert cost is not None
    assert cost.seconds(100) == pytest.approx(0.025, rel=0.05)


def test_a_first_pass_that_compiled_is_outweighed_by_quick_ones_of_other_sizes() -> None:
    costs = PassCosts()
    costs.observe(128, 3.0)
    for num in (8, 20, 50):
        costs.observe(num, 0.005 + 0.0002 * num)

    cost = costs.cost()

    assert cost is not None
    assert cost.seconds(50) < 0.03


def test_a_machine_that_becomes_slower_is_followed() -> None:
    costs = observed(fixed=0.005, per_token=0.0002)
    for num in SIZES:
        costs.observe(num, 3 * (0.005 + 0.0002 * num))

    cost = costs.cost()

    assert cost is not None
    assert cost.seconds(100) == pytest.approx(0.075, rel=0.2)


def test_noise_makes_no_part_of_the_cost_negative() -> None:
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


def test_what_is_read_after_a_long_context_says_nothing_of_what_is_read_after_a_short_one() -> None:
    costs = observed(fixed=0.005, per_token=0.0002)
    for _ in range(10):
        costs.observe(20, 0.1, context=30_000)

    short, long = costs.cost(context=100), costs.cost(context=32_000)

    assert short is not None
    assert long is not None
    assert short.seconds(20) == pytest.approx(0.009, rel=0.05)
    assert long.seconds(20) == pytest.approx(0.1, rel=0.05)
    assert long.fixed == pytest.approx(short.fixed, rel=0.05)
