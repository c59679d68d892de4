"""Restart delays: none after long service, growing after failed starts."""

from mlxctl.engine.client.restart_delay import RestartDelay


def test_delay_grows_after_failed_starts() -> None:
    delay = RestartDelay(max_seconds=30.0)
    assert [delay.after_failed_start() for _ in range(9)] == [0.25, 0.5, 1, 2, 4, 8, 16, 30, 30]


def test_deaths_after_long_service_cause_no_delay() -> None:
    delay = RestartDelay(max_seconds=30.0)
    assert [delay.after_death(now=30.0 * number) for number in range(20)] == [0.0] * 20


def test_repeated_deaths_cause_a_delay_for_a_minute() -> None:
    delay = RestartDelay(max_seconds=30.0)
    assert [delay.after_death(now=float(second)) for second in range(9)] == [0, 0, 0, 0.25, 0.5, 1, 2, 4, 4]
    assert delay.after_death(now=100.0) == 0.0


def test_successful_start_resets_the_delay() -> None:
    delay = RestartDelay(max_seconds=30.0)
    for _ in range(8):
        delay.after_failed_start()
    delay.after_death(now=0.0)
    assert delay.after_failed_start() == 0.25


def test_delay_is_bounded_by_the_setting() -> None:
    delay = RestartDelay(max_seconds=0.0)
    assert max(delay.after_failed_start(), *(delay.after_death(now=0.0) for _ in range(9))) == 0.0
