"""Decode groups: padding never costs more than another weights pass."""

from hypothesis import given
from hypothesis import strategies as st

from mlxctl.engine.scheduling.grouping import Lengths, affordable_padding, plan_joins

groups = st.lists(st.lists(st.integers(1, 40_000), min_size=1, max_size=5), min_size=1, max_size=8)


@given(groups, st.integers(0, 100_000))
def test_every_group_is_planned_once_within_affordable_padding(
    lengths: list[list[int]], affordable: int
) -> None:
    plan = plan_joins(lengths, affordable_padding_tokens=affordable)

    assert sorted(index for members in plan for index in members) == list(range(len(lengths)))
    for members in plan:
        joined = Lengths.of([length for index in members for length in lengths[index]])
        assert len(members) == 1 or joined.padding <= affordable


def test_long_row_is_not_joined_with_short_ones() -> None:
    assert plan_joins([[30_000], [100], [120], [90]], affordable_padding_tokens=1000) == [[0], [2, 1, 3]]


def test_groups_are_joined_up_to_the_affordable_padding() -> None:
    groups = [[100, 90], [80], [70, 60]]

    # 10, 20, 30 and 40 tokens of padding.
    assert plan_joins(groups, affordable_padding_tokens=100) == [[0, 1, 2]]
    assert plan_joins(groups, affordable_padding_tokens=99) == [[0, 1], [2]]


def test_short_rows_that_come_one_by_one_do_not_all_join_a_long_row() -> None:
    groups = [[30_000]]
    for _ in range(8):
        joined = [*groups, [100]]
        plan = plan_joins(joined, affordable_padding_tokens=35_000)
        groups = [[length for index in members for length in joined[index]] for members in plan]

    assert groups == [[30_000, 100], [100] * 7]


def test_affordable_padding_equals_weights_traffic() -> None:
    assert affordable_padding(weights_bytes=4_000_000, kv_bytes_per_token=1000) == 4000
    assert affordable_padding(weights_bytes=4_000_000, kv_bytes_per_token=0) > 1 << 40
