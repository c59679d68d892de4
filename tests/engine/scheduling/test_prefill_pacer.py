"""Sizes of prefill passes and turns for any costs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxctl.engine.scheduling.prefill_pacer import PrefillPacer
from mlxctl.ir.pass_memory import UNBOUNDED_PASSES, PassMemory

STEP = 0.02
# Of one long prompt beside rows.
TURN = 1.5 * STEP


def make_pacer(
    *,
    step: float | None = STEP,
    gap_seconds: float | None = None,
    max_tokens: int = 2048,
    num_layers: int = 11,
    memory: PassMemory = UNBOUNDED_PASSES,
) -> PrefillPacer:
    pacer = PrefillPacer(
        turn_seconds=0.5,
        max_tokens=max_tokens,
        gap_seconds=gap_seconds,
        num_layers=num_layers,
        memory=memory,
    )
    for _ in range(5 if step is not None else 0):
        pacer.observe_decode(step or 0.0, alone=True)
    return pacer


def measure(pacer: PrefillPacer, *, fixed: float, per_token: float) -> PrefillPacer:
    """Measure passes of two sizes."""
    for num_tokens in (64, 512) * 3:
        pacer.observe_prefill(num_tokens, fixed + num_tokens * per_token, rows=0)
    return pacer


def test_turn_of_long_prompt_beside_rows_takes_one_and_a_half_steps() -> None:
    assert make_pacer().turn(rows=1).seconds == pytest.approx(TURN)


def test_each_waiting_prompt_adds_one_and_a_half_steps_up_to_nine() -> None:
    pacer = make_pacer()

    seconds = [pacer.turn(rows=1, num_waiting=num).seconds for num in (1, 2, 3, 6, 50)]

    assert seconds == pytest.approx([0.03, 0.06, 0.09, 0.18, 0.18])


@pytest.mark.parametrize(("step", "seconds"), [(STEP, 5 * STEP), (0.2, 0.5)])
def test_turn_without_rows_takes_five_steps_up_to_the_slice(step: float, seconds: float) -> None:
    turn = make_pacer(step=step).turn(rows=0)

    assert (turn.seconds, turn.finishing_seconds) == pytest.approx((seconds, 1.25 * seconds))


def test_step_that_overlaps_a_turn_does_not_shorten_it() -> None:
    pacer = make_pacer()
    pacer.observe_decode(0.001, alone=False)

    assert pacer.turn(rows=1).seconds == pytest.approx(TURN + 0.019)
    assert pacer.added_seconds(TURN + 0.019, rows=1) == pytest.approx(TURN)


def test_turn_that_ends_its_pass_makes_no_longer_gap_than_many_prompts() -> None:
    pacer = make_pacer()

    one, many = (pacer.turn(rows=1, num_waiting=num).finishing_seconds for num in (1, 50))

    assert one == pytest.approx(1.25 * TURN)
    assert many == pytest.approx(10 * STEP)
    assert make_pacer(gap_seconds=0.1).turn(rows=1).finishing_seconds == pytest.approx(TURN)


def test_overdue_prompt_fills_target_gap() -> None:
    pacer = make_pacer(step=0.005, gap_seconds=0.1)

    seconds = [pacer.turn(rows=1, num_waiting=6, lateness=lateness).seconds for lateness in (1.0, 0.9)]

    assert seconds == pytest.approx([0.095, 0.045])


def test_longer_wait_lengthens_gaps_in_proportion_up_to_200_ms() -> None:
    pacer = make_pacer(step=0.005)

    gaps = [
        0.005 + pacer.turn(rows=1, num_waiting=6, lateness=lateness).seconds
        for lateness in (0.5, 4.0, 8.0, 100.0)
    ]

    assert gaps == pytest.approx([0.05, 0.05, 0.1, 0.2])


def test_steps_of_many_rows_lengthen_only_turns_beside_them() -> None:
    pacer = make_pacer(step=0.005)
    for _ in range(20):
        pacer.observe_decode(0.06, rows=16, alone=True)

    assert pacer.turn(rows=16).seconds == pytest.approx(0.06)
    assert pacer.turn(rows=1).seconds == pytest.approx(0.0075)


@pytest.mark.parametrize("per_token", [0.0003, 0.0008])
def test_one_layer_of_a_pass_takes_a_turn(per_token: float) -> None:
    pacer = measure(make_pacer(), fixed=0.002, per_token=per_token)

    assert 0.002 + per_token * pacer.pass_tokens(rows=1) == pytest.approx(10 * TURN, rel=0.05)


def test_pass_beside_rows_is_one_turn_where_no_layer_can_be_stopped_at() -> None:
    pacer = measure(make_pacer(num_layers=1), fixed=0.002, per_token=0.0005)

    assert 0.002 + 0.0005 * pacer.pass_tokens(rows=1) == pytest.approx(TURN, rel=0.05)


@pytest.mark.parametrize("step", [None, STEP])
def test_first_passes_have_the_least_size(step: float | None) -> None:
    pacer = make_pacer(step=step)

    assert (pacer.pass_tokens(rows=0), pacer.pass_tokens(rows=1)) == (512, 256)


@settings(max_examples=50)
@given(
    fixed=st.floats(0, 0.3),
    per_token=st.floats(1e-6, 0.1),
    step=st.floats(0.001, 0.3),
    rows=st.integers(0, 32),
    noise=st.lists(st.floats(0.3, 100), min_size=30, max_size=30),
)
def test_no_measurement_makes_passes_small(
    fixed: float, per_token: float, step: float, rows: int, noise: list[float]
) -> None:
    pacer = make_pacer(step=step)
    for factor in noise:
        num_tokens = pacer.pass_tokens(rows=rows)
        assert (256 if rows else 512) <= num_tokens <= 2048
        assert pacer.pass_tokens(rows=rows, context=100_000) >= (32 if rows else 64)
        assert 0 <= pacer.batch_tokens(rows=rows) <= 2048
        pacer.observe_prefill(num_tokens, (fixed + per_token * num_tokens) * factor, rows=rows)
        pacer.observe_decode(step * factor, rows=max(rows, 1), alone=rows == 0)


def test_pass_takes_at_least_four_fixed_costs() -> None:
    pacer = measure(make_pacer(step=0.001), fixed=0.05, per_token=0.0002)

    assert 0.05 + 0.0002 * pacer.pass_tokens(rows=1) == pytest.approx(4 * 0.05, rel=0.05)


def test_parts_of_a_prompt_are_equal() -> None:
    pacer = measure(make_pacer(), fixed=0.0, per_token=1e-5)

    assert pacer.part_tokens(2048, rows=0) == 2048
    assert pacer.part_tokens(2049, rows=0) == 1025
    assert pacer.part_tokens(0, rows=0) == 0


def test_prompts_are_batched_up_to_sixty_overheads_without_rows() -> None:
    pacer = measure(make_pacer(num_layers=31), fixed=0.01, per_token=0.002)

    assert 0.01 + 0.002 * pacer.batch_tokens(rows=0) == pytest.approx(60 * (0.01 + STEP), rel=0.05)


def test_prompts_beside_rows_are_batched_up_to_nine_steps() -> None:
    pacer = measure(make_pacer(), fixed=0.01, per_token=0.002)

    assert 0.01 + 0.002 * pacer.batch_tokens(rows=1) == pytest.approx(9 * STEP, rel=0.05)
    assert make_pacer().batch_tokens(rows=1) == 0


@pytest.mark.parametrize("num_streams", [1, 1000])
def test_decode_steps_do_not_set_cost_per_prompt_token(num_streams: int) -> None:
    fresh, old = make_pacer(step=0.005), make_pacer(step=0.005)
    for _ in range(num_streams):
        old.observe_decode(0.005, alone=True)
        old.observe_prefill(100, 0.004 + 100 * 0.0002, rows=0)
    fresh.observe_prefill(100, 0.004 + 100 * 0.0002, rows=0)

    assert old.batch_tokens(rows=1) == fresh.batch_tokens(rows=1) > 150


def test_outlier_does_not_change_next_pass() -> None:
    pacer = measure(make_pacer(), fixed=0.002, per_token=0.0005)
    usual = pacer.pass_tokens(rows=1)

    pacer.observe_decode(5.0, alone=True)
    pacer.observe_prefill(usual, 3.0, rows=1)

    assert pacer.pass_tokens(rows=1) == pytest.approx(usual, rel=0.05)


@pytest.mark.parametrize("rows", [0, 1])
def test_pass_after_a_long_context_is_bounded_by_memory(rows: int) -> None:
    memory = PassMemory(bytes_per_token=1000, bytes_per_score=10, max_bytes=10_000_000)
    pacer = measure(make_pacer(memory=memory), fixed=1e-5, per_token=1e-7)

    assert pacer.pass_tokens(rows=rows, context=20_000) < 50 < pacer.pass_tokens(rows=rows, context=0)
