"""Prefill passes fit their target time for any costs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxctl.engine.scheduling.prefill_pacer import PrefillPacer
from mlxctl.engine.scheduling.prefill_progress import MeasuredPass
from mlxctl.ir.pass_memory import UNBOUNDED_PASSES, PassMemory

STEP = 0.02
# Of one long prompt beside rows.
TURN = 1.5 * STEP


def make_pacer(
    *,
    step: float | None = STEP,
    gap_seconds: float | None = None,
    max_tokens: int = 2048,
    num_layers: int = 1,
    memory: PassMemory = UNBOUNDED_PASSES,
) -> PrefillPacer:
    pacer = PrefillPacer(
        slice_seconds=0.5,
        max_tokens=max_tokens,
        gap_seconds=gap_seconds,
        num_layers=num_layers,
        memory=memory,
    )
    for _ in range(5 if step is not None else 0):
        pacer.observe_decode(step or 0.0, alone=True)
    return pacer


def read(
    pacer: PrefillPacer, *, fixed: float, per_token: float, rows: int = 1, passes: int = 20, **situation: int
) -> int:
    """Prefill parts of a long prompt; return the next pass size."""
    for _ in range(passes):
        num_tokens = pacer.chunk_tokens(rows=rows, **situation)
        pacer.observe_prefill(num_tokens, fixed + num_tokens * per_token, rows=rows)
    return pacer.chunk_tokens(rows=rows, **situation)


@pytest.mark.parametrize("per_token", [0.0001, 0.0005, 0.002])
def test_pass_of_long_prompt_beside_rows_takes_one_and_a_half_steps(per_token: float) -> None:
    num_tokens = read(make_pacer(), fixed=0.002, per_token=per_token)

    assert 0.75 * TURN <= 0.002 + num_tokens * per_token <= 1.03 * TURN


def test_overlapping_step_is_not_counted_as_pass() -> None:
    pacer = make_pacer()
    for _ in range(20):
        num_tokens = pacer.chunk_tokens(rows=1)
        pacer.observe_decode(0.001, alone=False)
        pacer.observe_prefill(num_tokens, 0.019 + 0.002 + num_tokens * 0.0005, rows=1)

    assert 0.75 * TURN <= 0.002 + pacer.chunk_tokens(rows=1) * 0.0005 <= 1.03 * TURN


def test_each_waiting_prompt_adds_one_and_a_half_steps_up_to_nine() -> None:
    pacer = make_pacer()
    for num in (1, 2, 3, 6):
        read(pacer, fixed=0.002, per_token=0.0005, num_waiting=num)

    seconds = [0.002 + 0.0005 * pacer.chunk_tokens(rows=1, num_waiting=num) for num in (1, 2, 3, 6, 50)]

    assert seconds == pytest.approx([0.03, 0.06, 0.09, 0.18, 0.18], rel=0.1)
    assert 0.002 + 0.0005 * pacer.final_pass_tokens(rows=1) == pytest.approx(0.18, rel=0.1)


def test_overdue_prompt_fills_target_gap() -> None:
    pacer = make_pacer(step=0.005, gap_seconds=0.1)
    for _ in range(20):
        num_tokens = pacer.final_pass_tokens(rows=1, lateness=1.0)
        pacer.observe_prefill(num_tokens, 0.002 + 0.0005 * num_tokens, rows=1)

    late, in_time = (
        0.002 + 0.0005 * pacer.final_pass_tokens(rows=1, lateness=lateness) for lateness in (1.0, 0.9)
    )

    assert late == pytest.approx(0.095, rel=0.05)
    assert in_time == pytest.approx(0.045, rel=0.05)


def test_longer_wait_lengthens_gaps_in_proportion_up_to_200_ms() -> None:
    pacer = make_pacer(step=0.005)
    gaps = []
    for lateness in (0.5, 4.0, 8.0, 100.0):
        for _ in range(20):
            num_tokens = pacer.final_pass_tokens(rows=1, lateness=lateness)
            pacer.observe_prefill(num_tokens, 0.002 + 0.0005 * num_tokens, rows=1)
        gaps.append(0.005 + 0.002 + 0.0005 * pacer.final_pass_tokens(rows=1, lateness=lateness))

    assert gaps == pytest.approx([0.05, 0.05, 0.1, 0.2], rel=0.05)


def test_pass_beside_rows_takes_at_least_1_5_fixed_costs() -> None:
    pacer = make_pacer(step=0.001)
    read(pacer, fixed=0.05, per_token=0.0005)

    # Every fourth pass measures half the size.
    seconds = sorted(0.05 + 0.0005 * read(pacer, fixed=0.05, per_token=0.0005, passes=1) for _ in range(8))

    assert seconds[0] >= 0.06
    assert seconds[2:] == pytest.approx([0.075] * 6, rel=0.1)


@pytest.mark.parametrize(
    "step", [None, 0.02, 0.15], ids=["no step was measured", "quick steps", "steps as slow as passes"]
)
@pytest.mark.parametrize("rows", [0, 1])
def test_high_fixed_cost_does_not_make_passes_tiny(step: float | None, rows: int) -> None:
    pacer, seconds, num_read = make_pacer(step=step), 0.0, 0
    while num_read < 8000:
        num_tokens = pacer.chunk_tokens(rows=rows)
        duration = 0.15 + 0.0004 * num_tokens
        pacer.observe_prefill(num_tokens, duration, rows=rows)
        seconds, num_read = seconds + duration, num_read + num_tokens

    # In passes of 2048 tokens it takes 3.8 s; beside rows, at 1.5 times the fixed cost, it takes 9.6.
    assert seconds < (12 if rows else 6)


@pytest.mark.parametrize("num_streams", [1, 1000])
def test_decode_steps_do_not_set_cost_per_prompt_token(num_streams: int) -> None:
    fresh, old = make_pacer(step=0.005), make_pacer(step=0.005)
    for _ in range(num_streams):
        old.observe_decode(0.005, alone=True)
        old.observe_prefill(100, 0.004 + 100 * 0.0002, rows=0)
    fresh.observe_prefill(100, 0.004 + 100 * 0.0002, rows=0)

    assert old.final_pass_tokens(rows=1) == fresh.final_pass_tokens(rows=1) > 150


def test_without_rows_one_prompt_takes_five_steps_several_the_slice() -> None:
    pacer = make_pacer(step=0.01)
    alone = read(pacer, fixed=0.0, per_token=0.001, rows=0)
    for _ in range(5):
        together = pacer.final_pass_tokens(rows=0)
        pacer.observe_prefill(together, together * 0.001, rows=0)

    assert alone == pytest.approx(50, abs=2)
    assert pacer.final_pass_tokens(rows=0) == pytest.approx(500, abs=5)


def test_short_prompts_of_one_size_are_prefilled_in_one_pass_without_rows() -> None:
    pacer = make_pacer(step=0.01)
    for size in (50, 100, *[100] * 40):
        pacer.observe_prefill(size, 0.004 + size * 0.0002, rows=0)

    assert pacer.chunk_tokens(rows=0) >= 100


def test_pass_is_bounded_and_at_most_doubles_unless_it_finishes_prompts() -> None:
    pacer = make_pacer(step=0.1)

    first = pacer.chunk_tokens(rows=0)
    pacer.observe_prefill(first, first * 1e-6, rows=0)

    assert pacer.chunk_tokens(rows=0) == 2 * first
    assert pacer.final_pass_tokens(rows=0) == 4 * first
    assert read(pacer, fixed=0.0, per_token=1e-6, rows=0) == 2048


def test_outlier_does_not_change_next_pass() -> None:
    pacer = make_pacer()
    usual = read(pacer, fixed=0.002, per_token=0.0005)

    pacer.observe_decode(5.0, alone=True)
    pacer.observe_prefill(usual, 3.0, rows=1)

    assert pacer.chunk_tokens(rows=1) == pytest.approx(usual, rel=0.05)


def test_steps_of_many_rows_lengthen_only_passes_beside_them() -> None:
    pacer = make_pacer(step=0.005)
    alone = read(pacer, fixed=0.001, per_token=0.0005, rows=0)
    beside_one = pacer.chunk_tokens(rows=1)
    for _ in range(20):
        pacer.observe_decode(0.06, rows=16, alone=True)

    assert 0.001 + 0.0005 * pacer.chunk_tokens(rows=16) == pytest.approx(0.06, rel=0.1)
    assert pacer.chunk_tokens(rows=1) == beside_one
    assert pacer.chunk_tokens(rows=0) == alone


def test_one_layer_of_a_pass_by_layers_takes_a_turn() -> None:
    pacer, passes = make_pacer(num_layers=11), [MeasuredPass(32, 0.1, 0)]
    for _ in range(20):
        num_tokens = pacer.chunk_tokens(rows=1, last_passes=passes[-3:])
        passes.append(MeasuredPass(num_tokens, 0.02 + 0.001 * num_tokens, 0))

    assert passes[-1].seconds == pytest.approx(10 * TURN, rel=0.05)
    assert pacer.turn_seconds(rows=1) == pytest.approx(TURN)


def test_layers_of_a_long_context_take_no_longer_than_a_turn() -> None:
    pacer, passes, context = make_pacer(num_layers=11), [MeasuredPass(32, 0.01, 0)], 32
    for _ in range(40):
        num_tokens = pacer.chunk_tokens(rows=1, context=context, last_passes=passes[-3:])
        seconds = num_tokens * (512 + context + num_tokens / 2) * 1e-6
        passes.append(MeasuredPass(num_tokens, seconds, context))
        context += num_tokens

    assert max(each.seconds for each in passes) <= 1.1 * 10 * TURN
    assert passes[-1].seconds >= 0.8 * 10 * TURN


def test_size_of_pass_by_layers_follows_costs_and_not_single_delays() -> None:
    pacer, usual = make_pacer(num_layers=11), MeasuredPass(380, 0.3, 0)

    delayed, quick = usual._replace(seconds=3.0), usual._replace(seconds=0.03)
    assert pacer.chunk_tokens(rows=1, last_passes=[usual, usual, delayed]) == pytest.approx(380, abs=1)
    assert pacer.chunk_tokens(rows=1, last_passes=[delayed] * 3) == 190
    assert pacer.chunk_tokens(rows=1, last_passes=[quick] * 3) == 760


@settings(max_examples=50)
@given(
    fixed=st.floats(0, 0.3),
    per_token=st.floats(1e-6, 0.02),
    step=st.floats(0.001, 0.3),
    rows=st.integers(0, 32),
    noise=st.lists(st.floats(0.3, 10), min_size=30, max_size=30),
)
def test_pass_size_is_within_bounds_for_any_measurements(
    fixed: float, per_token: float, step: float, rows: int, noise: list[float]
) -> None:
    pacer = make_pacer(step=step)
    for factor in noise:
        num_tokens = pacer.chunk_tokens(rows=rows)
        assert 1 <= num_tokens <= 2048
        assert 1 <= pacer.final_pass_tokens(rows=rows) <= 2048
        pacer.observe_prefill(num_tokens, (fixed + per_token * num_tokens) * factor, rows=rows)
        pacer.observe_decode(step * factor, rows=max(rows, 1), alone=rows == 0)


@pytest.mark.parametrize("rows", [0, 1])
def test_quick_pass_after_a_long_context_is_bounded_by_memory(rows: int) -> None:
    memory = PassMemory(bytes_per_token=1000, bytes_per_score=10, max_bytes=10_000_000)
    pacer = make_pacer(memory=memory, num_layers=4)
    read(pacer, fixed=1e-5, per_token=1e-7, rows=rows)

    last = [MeasuredPass(64, 1e-5, 0)]
    sizes = [pacer.chunk_tokens(rows=rows, context=context, last_passes=last) for context in (0, 20_000)]

    assert sizes[1] < 50 < sizes[0]
    assert pacer.may_end(45, 100, context=20_000)
    assert not pacer.may_end(60, 100, context=20_000)
