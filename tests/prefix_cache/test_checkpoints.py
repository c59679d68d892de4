"""Checkpoint policy: planned positions, and which checkpoints are dropped."""

from hypothesis import given
from hypothesis import strategies as st

from mlxctl.prefix_cache.checkpoints import STRIDE_TOKENS, planned_positions, surplus


def test_planned_positions_cover_messages_branch_and_strides() -> None:
    boundaries = [900, 1500, 2000, 2500, 5000, 9000]

    positions = planned_positions(num_prompt_tokens=9010, boundaries=boundaries, branch=1234, num_cached=0)

    assert positions == [900, 1234, 2000, 2500, STRIDE_TOKENS, 5000, 2 * STRIDE_TOKENS, 9000, 9009]


def test_no_position_before_restored_state_or_after_last_token() -> None:
    assert planned_positions(
        num_prompt_tokens=100, boundaries=[20, 50, 100, 120], branch=None, num_cached=20
    ) == [50, 99]


def test_prompt_without_messages_has_checkpoints_at_its_quarters() -> None:
    def planned(num_prompt_tokens: int, num_cached: int = 0) -> list[int]:
        return planned_positions(
            num_prompt_tokens=num_prompt_tokens, boundaries=[], branch=None, num_cached=num_cached
        )

    assert planned(1001) == [250, 500, 750, 1000]
    assert planned(1001, num_cached=600) == [750, 1000]
    assert planned(512) == [511]


@given(st.sets(st.integers(1, 100_000), max_size=60), st.integers(2, 20))
def test_surplus_keeps_first_and_newest_checkpoints(positions: set[int], keep: int) -> None:
    remaining = positions - set(surplus(positions, keep=keep))

    assert len(remaining) == min(keep, len(positions))
    if positions:
        assert {min(positions), max(positions)} <= remaining


def test_surplus_drops_one_of_closest_pair() -> None:
    assert surplus([100, 110, 500, 1000], keep=3) == [110]


def test_surplus_keeps_newest_even_when_close() -> None:
    spread, newest = range(0, 16_000, 1000), [16_000, 16_010, 16_020, 16_030, 16_031, 16_055]
    assert not set(surplus([*spread, *newest])) & set(newest)
