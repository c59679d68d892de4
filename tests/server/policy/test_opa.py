"""Decisions of an OPA-shaped server behind a real socket."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlxctl.ir.errors import PolicyUnavailable, SettingsError
from mlxctl.ir.policy import USER_SCOPES
from mlxctl.server.policy import SettingsPolicy
from mlxctl.server.policy.backend import Decision, RequestFacts
from mlxctl.server.policy.opa import OpaPolicy
from mlxctl.server.wiring.policy import policy_service
from mlxctl.state.settings import OpaSettings, PolicySettings, Settings
from tests.server.policy.opa_double import OpaDouble, opa_double

FACTS = RequestFacts(
    caller="k",
    scopes=frozenset(USER_SCOPES),
    models=("qwen*",),
    scope="generate",
    model="qwen3",
    num_tokens=9,
)


@pytest.fixture
def double() -> Iterator[OpaDouble]:
    with opa_double() as server:
        yield server


def decide(url: str, *facts: RequestFacts, **options: Any) -> list[Decision]:
    async def ask() -> list[Decision]:
        policy = OpaPolicy(SettingsPolicy(["one"]), url, **{"timeout_seconds": 60.0, **options})
        decisions = [await policy.decide(each) for each in facts]
        await policy.close()
        return decisions

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("facts", "is_allowed"),
    [
        (FACTS, True),
        (replace(FACTS, model="llama3"), False),
        (replace(FACTS, models=(), model="llama3"), True),
        (replace(FACTS, scope="cache:write"), False),
    ],
)
def test_local_rules_hold_before_the_policy_server(
    double: OpaDouble, facts: RequestFacts, is_allowed: bool
) -> None:
    assert decide(double.url, facts) == [Decision(allowed=is_allowed)]
    assert bool(double.inputs) == is_allowed


@pytest.mark.parametrize(
    ("result", "is_allowed", "reason"),
    [
        (True, True, ""),
        (False, False, "denies"),
        (None, False, "denies"),
        ({"allow": False, "reason": "only at night"}, False, "only at night"),
        ({"allow": False, "reason": {"code": 7}}, False, "denies"),
        ({"allow": True, "reason": "x"}, True, ""),
    ],
)
def test_result_of_the_document_decides(
    double: OpaDouble, result: Any, is_allowed: bool, reason: str
) -> None:
    double.result = result
    (decision,) = decide(double.url, FACTS)
    assert decision.allowed == is_allowed
    assert reason in decision.reason
    document = double.inputs[0]
    assert (document["caller"], document["model"], document["num_tokens"]) == ("k", "qwen3", 9)
    assert document["scopes"] == sorted(USER_SCOPES)


def test_equal_facts_are_decided_once(double: OpaDouble) -> None:
    decide(double.url, FACTS, FACTS, replace(FACTS, num_tokens=10))
    assert len(double.inputs) == 2
    decide(double.url, FACTS, FACTS, cache_seconds=0.0)
    assert len(double.inputs) == 4


@pytest.mark.parametrize(("status", "result"), [(500, True), (200, "yes"), (200, {"deny": True})])
def test_unusable_answers_fail_closed_by_default(double: OpaDouble, status: int, result: Any) -> None:
    double.status, double.result = status, result
    with pytest.raises(PolicyUnavailable, match="does not answer"):
        decide(double.url, FACTS)
    assert decide(double.url, FACTS, on_error="allow") == [Decision(allowed=True)]


@pytest.mark.parametrize(
    "body", [b"x", b'{"result": ', b"[" * 100_000, b'{"result": true, "more": "' + b"x" * 100_000 + b'"}']
)
def test_malformed_and_huge_answers_fail_closed(double: OpaDouble, body: bytes) -> None:
    double.body = body
    with pytest.raises(PolicyUnavailable, match="does not answer"):
        decide(double.url, FACTS)


def test_answer_without_an_end_is_given_up(double: OpaDouble) -> None:
    double.drips = True
    with pytest.raises(PolicyUnavailable, match="does not answer"):
        decide(double.url, FACTS, timeout_seconds=0.2)


def test_absent_server_fails_closed_by_default(caplog: pytest.LogCaptureFixture) -> None:
    url = "http://127.0.0.1:9/v1/data/mlxctl"
    with pytest.raises(PolicyUnavailable):
        decide(url, FACTS)
    assert decide(url, FACTS, FACTS, on_error="allow") == [Decision(allowed=True)] * 2
    assert len(caplog.records) == 2


def test_log_has_no_credentials_of_the_policy_server(
    double: OpaDouble, caplog: pytest.LogCaptureFixture
) -> None:
    double.status = 500
    for url in (double.url, "http://127.0.0.1:9/v1/data/mlxctl"):
        decide(url.replace("://", "://me:secret@"), FACTS, on_error="allow")
    assert [url in caplog.text for url in (double.url, "http://127.0.0.1:9/", "status 500")] == [True] * 3
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8181", "opa", "ftp://127.0.0.1/v1", "http://", "http://[", "http://h:x"]
)
def test_setting_must_be_a_url(tmp_path: Path, url: str) -> None:
    store = PolicySettings(path=tmp_path / "policy.sqlite")
    with pytest.raises(SettingsError, match=r"opa\.url"):
        policy_service(Settings(opa=OpaSettings(url=url), policy=store))
