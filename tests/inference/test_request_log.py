"""States of requests while they run, and the last ended ones."""

from math import inf
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.inference.request_log import RequestLog
from mlxctl.inference.request_totals import RequestEnd
from mlxctl.ir.distribution import Distribution
from tests.calls import call_of_operator

ENDS: tuple[Literal["finished", "stopped"], ...] = ("finished", "stopped")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_request_states_from_waiting_to_finished() -> None:
    clock = Clock()
    log = RequestLog(clock=clock)
    entry = log.begin("a model", call_of_operator(), num_prompt_tokens=50)
    assert entry.view().state == "waiting"
    entry.prefilled(30, 20)
    assert (entry.view().state, entry.view().num_read_tokens, entry.view().num_cached_tokens) == (
        "reading",
        30,
        20,
    )
    clock.now += 2
    entry.generated(1)
    clock.now += 1
    entry.generated(10)
    entry.end("finished")
    clock.now += 60
    view = entry.view()
    assert (view.state, view.first_token_seconds, view.tokens_per_second, view.age_seconds) == (
        "finished",
        2.0,
        10.0,
        3.0,
    )


def test_tokens_of_one_frame_have_no_speed() -> None:
    clock = Clock()
    entry = RequestLog(clock=clock).begin("a model", call_of_operator(), num_prompt_tokens=1)
    entry.generated(1)
    clock.now += 0.0005
    entry.generated(2)
    entry.end("finished")

    assert entry.view().tokens_per_second is None


def test_first_end_counts() -> None:
    log = RequestLog()
    entry = log.begin("a model", call_of_operator(), num_prompt_tokens=1)
    entry.end("failed")
    entry.end("stopped")
    assert [view.state for view in log.views()] == ["failed"]


def test_open_requests_come_first_and_ended_ones_are_bounded() -> None:
    log = RequestLog(max_ended=2)
    entries = [log.begin("a model", call_of_operator(), num_prompt_tokens=1) for _ in range(5)]
    for entry in (entries[0], entries[3], entries[1]):
        entry.end("finished")
    assert [view.number for view in log.views()] == [5, 3, 2, 4]


def test_totals_are_counted_by_model() -> None:
    clock = Clock()
    log = RequestLog(clock=clock)
    for end in ENDS:
        entry = log.begin("a model", call_of_operator(), num_prompt_tokens=50)
        entry.prefilled(30, 20)
        clock.now += 0.5
        entry.generated(1)
        clock.now += 1
        entry.generated(10)
        entry.end(end)
    log.begin("a model", call_of_operator(), num_prompt_tokens=1)
    totals = log.totals["a model"]
    assert (totals.num_prompt, totals.num_cached, totals.num_generated) == (100, 40, 22)
    assert totals.ends == {RequestEnd("finished", "", ""): 1, RequestEnd("stopped", "", ""): 1}
    assert (totals.first_token.total, totals.next_token.total, totals.whole.total) == (1.0, 0.2, 3.0)


@given(st.lists(st.floats(0, 10)))
def test_histogram_is_cumulative(values: list[float]) -> None:
    distribution = Distribution.of((0.5, 1.0, 5.0))
    for value in values:
        distribution.add(value)
    assert distribution.cumulative() == [
        (bound, sum(value <= bound for value in values)) for bound in (0.5, 1.0, 5.0, inf)
    ]
    assert distribution.total == pytest.approx(sum(values))
