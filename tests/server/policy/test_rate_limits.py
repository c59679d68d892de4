"""Sliding-window limits, compared with a count over the whole history."""

import random
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxctl.ir.allowed_models import EVERY_MODEL
from mlxctl.ir.errors import RateLimited
from mlxctl.ir.policy import KeyLimits, Limits
from mlxctl.server.policy import Caller, PolicyService, RateLimiter, Reservation, SettingsPolicy


class Step(NamedTuple):
    """A request that begins or ends some seconds after the last step."""

    seconds: float
    begins: bool
    num_tokens: int
    which: int


@dataclass
class NaiveCount:
    """Every admitted request, with its start, reserved tokens, end and taken tokens."""

    limits: Limits
    requests: list[list[float | None]] = field(default_factory=list)

    def admits(self, now: float, max_tokens: int) -> bool:
        limits = self.limits
        starts = [start for start, _, _, _ in self.requests if start is not None]
        open_ones = [reserved for _, reserved, end, _ in self.requests if end is None]
        spent = sum(taken or 0 for _, _, end, taken in self.requests if end is not None and end > now - 60)
        tokens = spent + sum(reserved or 0 for reserved in open_ones)
        per_minute = limits.tokens_per_minute
        return (
            (not limits.requests_per_minute or _since(starts, now - 60) < limits.requests_per_minute)
            and (not limits.burst or _since(starts, now - 1) < limits.burst)
            and (not limits.concurrent or len(open_ones) < limits.concurrent)
            and (not per_minute or tokens + min(max(max_tokens, 1), per_minute) <= per_minute)
        )


def _since(starts: list[float], begin: float) -> int:
    return sum(start > begin for start in starts)


def follow(limits: Limits, steps: list[Step]) -> None:
    now = 1000.0
    limiter, naive = RateLimiter(clock=lambda: now), NaiveCount(limits)
    reservations: list[tuple[int, Reservation]] = []
    for step in steps:
        now += step.seconds
        if not step.begins:
            if reservations:
                number, reservation = reservations.pop(step.which % len(reservations))
                reservation.settle(step.num_tokens)
                naive.requests[number][2:] = [now, step.num_tokens]
            continue
        expected = naive.admits(now, step.num_tokens)
        try:
            reservation = limiter.admit({("key",): limits}, max_tokens=step.num_tokens)
        except RateLimited:
            was_admitted = False
        else:
            was_admitted = True
            reserved = min(step.num_tokens, limits.tokens_per_minute or 0)
            reservations.append((len(naive.requests), reservation))
            naive.requests.append([now, reserved, None, None])
        assert was_admitted == expected


COUNTS = st.sampled_from([None, 0, 1, 2, 3, 5])
LIMITS = st.builds(
    Limits,
    requests_per_minute=COUNTS,
    tokens_per_minute=st.sampled_from([None, 0, 1, 10, 50]),
    concurrent=COUNTS,
    burst=COUNTS,
)
STEPS = st.builds(
    Step,
    st.sampled_from([0.0, 0.25, 0.5, 1.0, 10.0, 30.0, 59.75, 60.0]),
    st.booleans(),
    st.integers(0, 60),
    st.integers(0, 9),
)


@settings(max_examples=100, deadline=None)
@given(LIMITS, st.lists(STEPS, max_size=40))
def test_limiter_agrees_with_a_count_of_the_history(limits: Limits, steps: list[Step]) -> None:
    follow(limits, steps)


def test_limiter_equals_the_count_over_ten_thousand_histories() -> None:
    chance = random.Random(17)
    for _ in range(10_000):
        limits = Limits(
            requests_per_minute=chance.choice([None, 1, 2, 4]),
            tokens_per_minute=chance.choice([None, 5, 30]),
            concurrent=chance.choice([None, 1, 3]),
            burst=chance.choice([None, 1, 2]),
        )
        steps = [
            Step(
                chance.choice([0.0, 0.5, 1.0, 20.0, 59.5]),
                chance.random() < 0.6,
                chance.randrange(20),
                chance.randrange(9),
            )
            for _ in range(8)
        ]
        follow(limits, steps)


def test_retry_after_is_when_the_request_is_admitted() -> None:
    now = 0.0
    limiter = RateLimiter(clock=lambda: now)
    limits = {("key",): Limits(requests_per_minute=2, tokens_per_minute=100)}
    limiter.admit(limits, max_tokens=0).settle(70)
    now = 20.0
    limiter.admit(limits, max_tokens=0).settle(20)
    with pytest.raises(RateLimited) as refused:
        limiter.admit(limits, max_tokens=50)
    assert refused.value.retry_after_seconds == 40.0
    now = 60.0
    assert limiter.admit(limits, max_tokens=50).state.remaining_tokens == 30


def test_changed_limit_holds_for_the_next_request() -> None:
    limiter = RateLimiter(clock=lambda: 0.0)
    limiter.admit({("key",): Limits(concurrent=5)}, max_tokens=0)
    with pytest.raises(RateLimited):
        limiter.admit({("key",): Limits(concurrent=1)}, max_tokens=0)
    limiter.admit({("key",): Limits(concurrent=2)}, max_tokens=0)


def test_limits_of_key_and_model_are_counted_apart() -> None:
    limits = KeyLimits(all_models=Limits(concurrent=3), models={"big*": Limits(concurrent=1)})
    caller = Caller(name="k", scopes=frozenset(), models=EVERY_MODEL, limits=limits)
    policy = PolicyService(SettingsPolicy(["one"], limits=Limits(concurrent=1)))
    assert policy.admit(caller, "k", "big-1", max_tokens=0)
    with pytest.raises(RateLimited):
        policy.admit(caller, "k", "big-1", max_tokens=0)
    assert policy.admit(caller, "k", "small", max_tokens=0)
    assert policy.admit(caller, "other", "big-1", max_tokens=0)


def test_without_limits_nothing_is_counted() -> None:
    policy = PolicyService(SettingsPolicy(["one"]))
    caller = policy.identify(authorization="Bearer one", x_api_key=None)
    assert policy.admit(caller, "k", "m", max_tokens=5) is None
