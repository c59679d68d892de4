"""An engine that served well is back at once; one that cannot stay is started ever less often."""

from mlxctl.engine.client.restart_delay import RestartDelay


def test_an_engine_that_does_not_come_up_is_tried_ever_less_often() -> None:
    delay = RestartDelay(max_seconds=30.0)
    assert [delay.after_failed_start() for _ in range(9)] == [0.25, 0.5, 1, 2, 4, 8, 16, 30, 30]


def test_deaths_after_good_service_cost_no_delay_however_many_there_were() -> None:
    delay = RestartDelay(max_seconds=30.0)
    assert [delay.after_death(now=30.0 * number) for number in range(20)] == [0.0] * 20


def test_deaths_soon_after_each_other_are_bounded_and_forgotten_in_a_minute() -> None:
    delay = RestartDelay(max_seconds=30.0)
    assert [delay.after_death(now=float(second)) for second in range(9)] == [0, 0, 0, 0.25, 0.5, 1, 2, 4, 4]
    assert delay.after_death(now=100.0) == 0.0


def test_failed_starts_are_forgotten_once_it_came_up() -> None:
    delay = RestartDelay(max_seconds=30.0)
    for _ in range(8):
        delay.after_failed_start()
    delay.after_death(now=0.0)
    assert delay.after_failed_start() == 0.25


def test_no_delay_is_longer_than_the_setting_says() -> None:
    delay = RestartDelay(max_seconds=0.0)
    assert max(delay.after_failed_start(), *(delay.after_death(now=0.0) for _ in range(9))) == 0.0
