"""Access of every route of the table."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from falcon import testing

from mlxctl.ir.policy import SCOPES, USER_SCOPES
from mlxctl.server.route import Route
from mlxctl.server.routes import all_routes
from mlxctl.settings import ServerSettings

from .conftest import unstarted_app
from .process import ServerProcess

ALPHA, BETA, ADMIN = "key-of-alpha", "key-of-beta", "key-of-admin"
SECRET = "the-safe-opens-with-493817 " * 3


ROUTES = all_routes()


def methods_of(route: Route) -> list[str]:
    return [operation.method.upper() for operation in route.operations]


def test_only_open_routes_answer_without_a_key(endless_model: Path) -> None:
    client = unstarted_app(endless_model, ServerSettings(api_keys=(ALPHA,)))
    for route in ROUTES:
        for method in methods_of(route):
            status = client.simulate_request(method, _address(route.path, "x")).status_code
            assert (status == 401) == (route.access != "open"), (method, route.path)


@pytest.mark.parametrize(
    ("admin_keys", "key", "missing"),
    [
        ((), BETA, set()),
        ((ADMIN,), BETA, {*SCOPES} - {*USER_SCOPES}),
        ((ADMIN,), ADMIN, None),
    ],
)
def test_admin_routes_need_an_admin_key(
    endless_model: Path, admin_keys: tuple[str, ...], key: str, missing: set[str] | None
) -> None:
    client = unstarted_app(endless_model, ServerSettings(api_keys=(ALPHA, BETA), admin_keys=admin_keys))
    for route in ROUTES:
        for method in methods_of(route):
            result = client.simulate_request(
                method, _address(route.path, "x"), headers={"x-api-key": key}, body=b"{}"
            )
            is_refused = missing is not None and (route.covers_all_callers or route.access in missing)
            assert (result.status_code == 403) == is_refused, (method, route.path)


def test_only_key_may_administer(endless_model: Path) -> None:
    client: testing.TestClient = unstarted_app(endless_model, ServerSettings(api_keys=(ALPHA,)))
    for route in ("/cache", "/stats", "/metrics", "/requests"):
        assert client.simulate_get(route, headers={"x-api-key": ALPHA}).status_code not in (401, 403)


@pytest.fixture(scope="module")
def server(endless_model: Path) -> Iterator[ServerProcess]:
    server = ServerProcess(
        "--model", str(endless_model), "--name", "tiny", "--api-key", ALPHA, "--api-key", BETA
    )
    try:
        server.wait_ready()
        yield server
    finally:
        server.kill()


def test_no_route_reveals_data_of_another_key(server: ServerProcess) -> None:
    with (
        httpx.Client(base_url=server.url, headers={"x-api-key": ALPHA}, timeout=60) as alpha,
        httpx.Client(base_url=server.url, headers={"x-api-key": BETA}, timeout=60) as beta,
    ):
        response = alpha.post(
            "/v1/responses", json={"model": "tiny", "input": SECRET, "max_output_tokens": 2}
        ).json()["id"]
        agent = alpha.post(
            "/v1/agents", json={"model": "tiny", "id": "agent-of-alpha", "instructions": SECRET}
        ).json()["id"]
        turn = {"messages": [{"role": "user", "content": SECRET}], "max_tokens": 2}
        assert alpha.post(f"/v1/agents/{agent}/generate", json=turn).status_code == 200
        before = (
            alpha.get(f"/v1/agents/{agent}").json()["num_messages"],
            alpha.get(f"/v1/responses/{response}").json(),
        )

        for route in ROUTES:
            for method in methods_of(route):
                name = response if "response_id" in route.path else agent
                body = turn if method == "POST" else {}
                answer = beta.request(method, _address(route.path, name), json=body)
                _check(answer, route.path, has_name="_id}" in route.path)

        assert alpha.get("/requests").json()["requests"] != []
        assert beta.get("/requests").json()["requests"] == []
        goes_on = beta.post(
            "/v1/responses", json={"model": "tiny", "input": "x", "previous_response_id": response}
        )
        assert goes_on.status_code in (400, 404)
        assert (
            alpha.get(f"/v1/agents/{agent}").json()["num_messages"],
            alpha.get(f"/v1/responses/{response}").json(),
        ) == before


def _address(route: str, name: str) -> str:
    return route.replace("{response_id}", name).replace("{agent_id}", name).replace("{name:path}", name)


def _check(answer: httpx.Response, route: str, *, has_name: bool) -> None:
    assert answer.status_code < 500, route
    absent = 403 if route.startswith("/admin") else 404
    assert not has_name or answer.status_code == absent, (route, answer.text)
    # This one renders what the caller itself has sent.
    assert route == "/apply-template" or "493817" not in answer.text, route
