"""What is remembered of requests: their progress while they run, and the last of them afterwards."""

from mlxctl.inference.request_log import RequestLog


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_request_is_told_from_waiting_to_its_end() -> None:
    clock = Clock()
    log = RequestLog(clock=clock)
    entry = log.begin("a model", num_prompt_tokens=50)
    assert entry.view().state == "waiting"
    entry.read(30, 20)
    assert (entry.view().state, entry.view().num_read_tokens, entry.view().num_cached_tokens) == ("reading", 30, 20)
    clock.now += 2
    entry.generated(1)
    clock.now += 1
    entry.generated(10)
    entry.end("finished")
    clock.now += 60
    view = entry.view()
    assert (view.state, view.first_token_seconds, view.tokens_per_second, view.age_seconds) == ("finished", 2.0, 10.0, 3.0)


def test_the_first_end_counts() -> None:
    log = RequestLog()
    entry = log.begin("a model", num_prompt_tokens=1)
    entry.end("failed")
    entry.end("stopped")
    assert [view.state for view in log.views()] == ["failed"]


def test_open_requests_come_first_and_only_the_last_ended_ones_are_remembered() -> None:
    log = RequestLog(max_ended=2)
    entries = [log.begin("a model", num_prompt_tokens=1) for _ in range(5)]
    for entry in (entries[0], entries[3], entries[1]):
        entry.end("finished")
    assert [view.number for view in log.views()] == [5, 3, 2, 4]
