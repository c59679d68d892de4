"""Prefill slices fit their time, whatever the machine's speed."""

import pytest

from mlxctl.engine.pacing import PrefillPacer


def converge(pacer: PrefillPacer, *, seconds_per_token: float, overhead: float, contended: bool, overlap: float = 0.0) -> int:
    for _ in range(60):
        num_tokens = pacer.chunk_tokens(contended=contended)
        if contended:
            pacer.observe_decode(0.02 - overlap, alone=False)
        seconds = overlap + overhead + num_tokens * seconds_per_token
        pacer.observe_prefill(num_tokens, seconds, contended=contended)
    return pacer.chunk_tokens(contended=contended)


@pytest.mark.parametrize("overlap", [0.0, 0.019], ids=["step finishes first", "step runs on beside the chunk"])
@pytest.mark.parametrize("seconds_per_token", [0.0001, 0.0005, 0.002])
def test_a_slice_takes_about_a_decode_step_while_rows_decode(seconds_per_token: float, overlap: float) -> None:
    pacer = PrefillPacer(slice_seconds=0.5, max_tokens=2048)
    pacer.observe_decode(0.02, alone=True)

    num_tokens = converge(pacer, seconds_per_token=seconds_per_token, overhead=0.002, contended=True, overlap=overlap)

    assert 0.010 <= 0.002 + num_tokens * seconds_per_token <= 0.021


def test_a_slice_alone_is_longer_but_bounded_in_time_and_tokens() -> None:
    slow = PrefillPacer(slice_seconds=0.5, max_tokens=2048)
    slow.observe_decode(0.1, alone=True)
    fast = PrefillPacer(slice_seconds=0.5, max_tokens=2048)
    fast.observe_decode(0.1, alone=True)

    assert 0.4 < converge(slow, seconds_per_token=0.001, overhead=0.0, contended=False) * 0.001 <= 0.5
    assert converge(fast, seconds_per_token=0.000001, overhead=0.0, contended=False) == 2048


def test_a_short_last_chunk_does_not_shrink_the_next_one() -> None:
    pacer = PrefillPacer(slice_seconds=0.5, max_tokens=2048)
    before = pacer.chunk_tokens(contended=False)

    pacer.observe_prefill(3, 0.4, contended=False)

    assert pacer.chunk_tokens(contended=False) == before


def test_one_slow_step_hardly_moves_the_measure_of_a_step() -> None:
    pacer = PrefillPacer(slice_seconds=0.5, max_tokens=2048)
    for _ in range(20):
        pacer.observe_decode(0.01, alone=True)

    pacer.observe_decode(5.0, alone=True)

    assert pacer.decode_seconds is not None
    assert pacer.decode_seconds < 0.02


def test_one_disturbed_slice_hardly_changes_the_next_one_while_rows_decode() -> None:
    pacer = PrefillPacer(slice_seconds=0.5, max_tokens=2048)
    pacer.observe_decode(0.02, alone=True)
    usual = converge(pacer, seconds_per_token=0.0005, overhead=0.002, contended=True)

    pacer.observe_prefill(usual, 0.015, contended=True)

    assert usual < pacer.chunk_tokens(contended=True) < 1.3 * usual


def test_a_slice_for_several_prompts_takes_at_most_three_decode_steps_while_rows_decode() -> None:
    pacer = PrefillPacer(slice_seconds=0.5, max_tokens=2048)
    for _ in range(4):
        pacer.observe_decode(0.02, alone=True)
    for _ in range(20):
        num_tokens = pacer.together_tokens(contended=True)
        pacer.observe_together(num_tokens, 0.01 + num_tokens * 0.0005)

    assert 0.045 <= 0.01 + pacer.together_tokens(contended=True) * 0.0005 <= 0.061


def test_while_nobody_decodes_several_prompts_are_read_together_up_to_the_longest_slice() -> None:
    pacer = PrefillPacer(slice_seconds=0.5, max_tokens=2048)
    pacer.observe_decode(0.01, alone=True)
    alone = converge(pacer, seconds_per_token=0.002, overhead=0.0, contended=False)

    assert alone == 25
    assert 0.4 <= pacer.together_tokens(contended=False) * 0.002 <= 0.5


def test_one_long_step_does_not_make_the_next_slice_for_several_prompts_longer() -> None:
    pacer = PrefillPacer(slice_seconds=0.5, max_tokens=2048)
    for _ in range(4):
        pacer.observe_decode(0.02, alone=True)
    pacer.observe_together(100, 0.05)
    before = pacer.together_tokens(contended=True)

    pacer.observe_decode(0.4, alone=False)

    assert pacer.together_tokens(contended=True) == before


def test_long_steps_of_many_rows_make_slices_beside_them_longer_but_hardly_those_that_a_short_request_waits_for() -> None:
    pacer = PrefillPacer(slice_seconds=0.5, max_tokens=2048)
    for seconds in [0.005] * 20 + [0.06] * 12:
        pacer.observe_decode(seconds, alone=True)

    assert pacer.target_seconds(contended=True) > 0.04
    assert pacer.target_seconds(contended=False) < 0.1
