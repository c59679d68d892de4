"""Waits estimated from the durations of requests."""

import pytest

from mlxctl.engine.client.queue_pace import QueuePace


def test_wait_follows_duration_of_requests_and_rows() -> None:
    pace = QueuePace(num_rows=4)
    pace.started(1, now=0.0)
    pace.ended(1, now=8.0)

    assert pace.wait_seconds(2, now=8.0) == 4.0
    assert pace.wait_seconds(8, now=8.0) == 16.0


@pytest.mark.parametrize(("num_waiting", "seconds"), [(0, 1.0), (10_000, 60.0)])
def test_wait_is_between_one_second_and_one_minute(num_waiting: int, seconds: float) -> None:
    assert QueuePace(num_rows=1).wait_seconds(num_waiting, now=0.0) == seconds


def test_open_requests_lengthen_the_wait() -> None:
    pace = QueuePace(num_rows=1)
    pace.started(1, now=0.0)

    assert pace.wait_seconds(1, now=30.0) == 30.0
    pace.clear()
    assert pace.wait_seconds(1, now=30.0) == 2.0


def test_request_without_a_row_does_not_count() -> None:
    pace = QueuePace(num_rows=1)
    pace.ended(7, now=100.0)

    assert pace.wait_seconds(1, now=100.0) == 2.0
