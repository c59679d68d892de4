"""Open requests: shares of a full queue, and estimated waits."""

import pytest

from mlxctl.engine import TokenStream
from mlxctl.engine.client.open_requests import OpenRequests, QueuePace
from mlxctl.engine.client.token_stream import ReadingRules
from mlxctl.engine.wire.reports import RowUpdate

NO_PAUSES = ReadingRules(max_unread_tokens=1000, max_pause_seconds=60.0, on_pause=lambda _: None)


def waiting(**numbers: int) -> OpenRequests:
    """Return waiting sequences; the arguments are their numbers by caller."""
    requests = OpenRequests(num_rows=4)
    callers = [caller for caller, number in numbers.items() for _ in range(number)]
    for sequence_id, caller in enumerate(callers):
        requests.add(TokenStream(sequence_id, lambda _: None, rules=NO_PAUSES, fairness_key=caller))
    return requests


def test_only_caller_may_fill_the_queue() -> None:
    assert waiting(a=7).has_share("a", 8)
    assert not waiting(a=8).has_share("a", 8)


def test_new_caller_gets_its_share_of_a_full_queue() -> None:
    assert waiting(a=8).has_share("b", 8)
    assert waiting(a=8, b=3).has_share("b", 8)
    assert not waiting(a=8, b=4).has_share("b", 8)
    assert not waiting(a=8, b=3).has_share("a", 8)


def test_queue_of_many_callers_has_a_bound() -> None:
    assert not waiting(a=8, b=4, c=2, d=2).has_share("e", 8)


def test_started_sequences_do_not_count() -> None:
    requests = OpenRequests(num_rows=4)
    stream = TokenStream(1, lambda _: None, rules=NO_PAUSES, fairness_key="a")
    requests.add(stream)
    assert not requests.has_share("a", 1)

    stream.put(RowUpdate(sequence_id=1, token_ids=[5]))

    assert requests.has_share("a", 1)


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
