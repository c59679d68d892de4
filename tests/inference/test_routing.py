"""Breakers, rules and what counts as cloud."""

from dataclasses import replace

import pytest

from mlxctl.inference.call_context import operator_call
from mlxctl.inference.routing.breaker import MAX_FAILURES, PAUSE_SECONDS, Breaker
from mlxctl.inference.routing.rules import Rules, Target, prompt_bytes
from mlxctl.ir import GenerationRequest, ToolSpec, text_message
from mlxctl.ir.allowed_models import AllowedModels
from mlxctl.ir.errors import (
    CapacityError,
    ContextTooLong,
    EngineDied,
    InvalidRequest,
    MlxctlError,
    NoRoomForModel,
    RemoteFailed,
    RequestCancelled,
)
from mlxctl.ir.host_names import is_local_network
from mlxctl.state.settings import RouteSettings


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def opened(clock: Clock) -> Breaker:
    breaker = Breaker(clock=clock)
    for _ in range(MAX_FAILURES):
        assert breaker.take()
        breaker.fail()
    assert breaker.state == "open"
    return breaker


def test_open_breaker_lets_one_trial_through_after_its_pause() -> None:
    clock = Clock()
    breaker = opened(clock)
    assert not breaker.take()
    clock.now += PAUSE_SECONDS
    assert breaker.take()
    assert (breaker.state, breaker.take()) == ("half_open", False)
    breaker.succeed()
    assert (breaker.state, breaker.take()) == ("closed", True)


def test_trial_that_fails_opens_the_breaker_again() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now += PAUSE_SECONDS
    breaker.take()
    breaker.fail()
    assert (breaker.state, breaker.take(), breaker.changes["open"]) == ("open", False, 2)


def test_trial_without_a_result_leaves_the_next_one() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now += PAUSE_SECONDS
    breaker.take()
    breaker.give_up()
    assert breaker.take()


def test_answers_between_failures_keep_the_breaker_closed() -> None:
    breaker = Breaker()
    for _ in range(MAX_FAILURES):
        breaker.fail()
        breaker.succeed()
    assert breaker.state == "closed"


RULES = Rules(
    rules=(
        RouteSettings(to="long", min_prompt_bytes=100),
        RouteSettings(to="big", model="m*", when="no_memory", use="other"),
        RouteSettings(to="spare", model="m*", when="failure"),
        RouteSettings(to="local", model="m*", when="failure", use="small"),
    )
)


@pytest.mark.parametrize(
    ("error", "is_remote", "target"),
    [
        (NoRoomForModel("m", "it is large"), False, Target("big", "other")),
        (ContextTooLong(num_prompt_tokens=9, context_length=8), False, Target("big", "other")),
        (EngineDied("it died"), False, Target("spare", "m")),
        (RemoteFailed("far", "it failed"), True, Target("spare", "m")),
        (CapacityError("it is busy"), True, Target("spare", "m")),
        (CapacityError("it is busy"), False, None),
        (InvalidRequest("it is wrong"), True, None),
        (RequestCancelled("it was cancelled"), False, None),
    ],
)
def test_first_rule_for_a_failure_counts(error: MlxctlError, is_remote: bool, target: Target | None) -> None:
    assert RULES.after(error, "m", num_bytes=0, call=operator_call(), is_remote=is_remote) == target


def test_pinned_request_takes_rules_of_its_side_only() -> None:
    error = RemoteFailed("far", "it failed")
    free, pinned = operator_call(), replace(operator_call(), pin="local")
    assert RULES.after(error, "m", num_bytes=0, call=pinned, is_remote=True) == Target(None, "small")
    assert RULES.first("m", num_bytes=100, call=pinned) is None
    assert RULES.first("m", num_bytes=100, call=free) == Target("long", "m")
    assert RULES.first("m", num_bytes=99, call=free) is None


def test_rule_gives_no_caller_a_model_of_others() -> None:
    call = operator_call()
    limited = replace(call, caller=replace(call.caller, models=AllowedModels(("m",))))
    error = NoRoomForModel("m", "it is large")
    assert RULES.after(error, "m", num_bytes=0, call=limited, is_remote=False) == Target("spare", "m")


def test_prompt_bytes_are_those_of_texts_and_tools() -> None:
    tool = ToolSpec(name="f", description="ab", parameters={})
    request = GenerationRequest(model="m", messages=(text_message("user", "é"),), tools=(tool,))
    assert prompt_bytes(request) == 2 + 2 + 2


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("192.168.1.9", True),
        ("100.64.0.7", True),
        ("fe80::1%en0", True),
        ("studio", True),
        ("studio.local", True),
        ("STUDIO.Internal.", True),
        ("8.8.8.8", False),
        ("2606:4700::1", False),
        ("api.example.com", False),
        ("local.example.com", False),
    ],
)
def test_what_is_beyond_the_local_network_is_cloud(host: str, is_local: bool) -> None:
    assert is_local_network(host) is is_local
