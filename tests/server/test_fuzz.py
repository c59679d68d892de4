"""About a hundred fuzzed requests; `python -m tests.fuzz` sends more."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from falcon import testing
from fuzz.bodies import ADMIN_BODIES
from fuzz.mutations import FuzzedRequest, bodies, requests
from fuzz.target import with_short_context
from fuzz.volley import AT_ONCE, Volley
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mlxctl.state.settings import PolicySettings, ServerSettings

from .conftest import unstarted_app
from .hosted import hosting

ADMIN = "key-of-the-admin"


@pytest.fixture(scope="module")
def volley(endless_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Volley]:
    target = with_short_context(endless_model, tmp_path_factory.mktemp("models") / "short")
    with hosting(target) as running:
        sending = Volley(running.url)
        yield sending
        sending.close()


@settings(max_examples=14, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(batch=st.lists(requests(), min_size=AT_ONCE, max_size=AT_ONCE))
def test_every_request_is_answered_or_refused_in_its_protocols_shape(
    volley: Volley, batch: list[FuzzedRequest]
) -> None:
    volley.send(batch)


@pytest.fixture(scope="module")
def unstarted(endless_model: Path, tmp_path_factory: pytest.TempPathFactory) -> testing.TestClient:
    store = PolicySettings(path=tmp_path_factory.mktemp("policy") / "policy.sqlite")
    return unstarted_app(endless_model, ServerSettings(admin_keys=(ADMIN,)), store)


@settings(max_examples=80, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(
    route=st.sampled_from(sorted(ADMIN_BODIES)).flatmap(
        lambda route: st.tuples(st.just(route), bodies(ADMIN_BODIES[route]))
    ),
    number=st.integers(0, 3),
)
def test_admin_requests_are_answered_or_refused_as_problems(
    unstarted: testing.TestClient, route: tuple[str, bytes], number: int
) -> None:
    headers = {"x-api-key": ADMIN, "content-type": "application/json"}
    keys = unstarted.simulate_get("/admin/keys", headers=headers).json["keys"]
    ids = ["key_none", *(key["id"] for key in keys)]
    method, path = route[0].replace("{key_id}", ids[number % len(ids)]).split(" ")
    answer = unstarted.simulate_request(method, path, headers=headers, body=route[1])
    if answer.status_code >= 400:
        assert answer.status_code < 500
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json["status"] == answer.status_code
        assert answer.json["detail"] == answer.json["error"]["message"] != ""
    assert ADMIN not in answer.text
    assert '"key":' not in unstarted.simulate_get("/admin/keys", headers=headers).text


def test_no_request_is_left_open(volley: Volley) -> None:
    assert volley.num_sent >= 100
    assert not any(volley.leftovers().values())
