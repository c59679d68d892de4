"""A full queue still takes callers below their share."""

from mlxctl.engine import TokenStream
from mlxctl.engine.client.open_requests import OpenRequests
from mlxctl.engine.client.token_stream import ReadingRules
from mlxctl.engine.wire.reports import RowUpdate

NO_PAUSES = ReadingRules(max_unread_tokens=1000, max_pause_seconds=60.0, on_pause=lambda _: None)


def waiting(**numbers: int) -> OpenRequests:
    """Return waiting sequences, so many for each caller."""
    requests = OpenRequests(num_rows=4)
    callers = [caller for caller, number in numbers.items() for _ in range(number)]
    for sequence_id, caller in enumerate(callers):
        requests.add(TokenStream(sequence_id, lambda _: None, rules=NO_PAUSES, fairness_key=caller))
    return requests


def test_caller_alone_has_the_whole_queue_and_no_more() -> None:
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
