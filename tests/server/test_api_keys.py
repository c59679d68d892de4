"""Stored API keys: scopes, allowed models, limits, revocation, bad input."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from falcon import testing

from mlxctl.cli import app
from mlxctl.inference.preparation import PackedRequest
from mlxctl.ir import GenerationRequest
from mlxctl.ir.allowed_models import EVERY_MODEL
from mlxctl.ir.policy import SCOPES
from mlxctl.server.policy import Caller
from mlxctl.state.settings import OidcSettings, PolicySettings, ServerSettings
from tests.calls import call_of_operator
from tests.server.policy.identity_provider import AUDIENCE, identity_provider

from .conftest import unstarted_app
from .hosted import HostedServer, hosting
from .test_route_access import calls

ADMIN = "key-of-admin"
HELLO = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def unstarted(endless_model: Path, tmp_path_factory: pytest.TempPathFactory) -> testing.TestClient:
    store = PolicySettings(path=tmp_path_factory.mktemp("policy") / "policy.sqlite")
    return unstarted_app(endless_model, ServerSettings(admin_keys=(ADMIN,)), store)


def request(client: testing.TestClient, method: str, path: str, body: Any = None, key: str = ADMIN) -> Any:
    return client.simulate_request(
        method,
        path,
        body=json.dumps({} if body is None else body),
        headers={"x-api-key": key, "content-type": "application/json"},
    )


@pytest.mark.parametrize("scope", [scope for scope in SCOPES if scope != "admin"])
def test_key_reaches_only_the_routes_of_its_scope(unstarted: testing.TestClient, scope: str) -> None:
    key = request(unstarted, "POST", "/admin/keys", {"name": f"only {scope}", "scopes": [scope]}).json["key"]
    for route, method, template in calls():
        path = template.replace("{name:path}", "x").replace("{", "").replace("}", "")
        result = request(unstarted, method, path, key=key)
        is_allowed = route.access in ("open", "caller", scope)
        assert result.status_code != 401
        is_forbidden = result.status_code == 403 and "feature_disabled" not in result.text
        assert is_forbidden != is_allowed, (method, path)
        if not is_allowed:
            assert method == "HEAD" or f"scope '{route.access}'" in result.text
            assert 'error="insufficient_scope"' in result.headers["www-authenticate"]


def test_tokens_reach_the_routes_of_their_scopes(endless_model: Path, tmp_path: Path) -> None:
    with identity_provider() as provider:
        oidc = OidcSettings(issuer=provider.issuer, audience=AUDIENCE)
        client = unstarted_app(
            endless_model, ServerSettings(), PolicySettings(path=tmp_path / "policy.sqlite"), oidc=oidc
        )
        provider.status = 500
        with_token = {"authorization": f"Bearer {provider.token(scope='admin')}"}
        assert client.simulate_get("/admin/keys", headers=with_token).status_code == 503
        assert client.simulate_get("/livez", headers=with_token).status_code == 200
        client = unstarted_app(
            endless_model, ServerSettings(), PolicySettings(path=tmp_path / "policy.sqlite"), oidc=oidc
        )
        provider.status = 200
        for token, status, problem in (
            (provider.token(scope="admin"), 200, None),
            (provider.token(scope="generate"), 403, 'error="insufficient_scope"'),
            (provider.token(exp=1), 401, 'error="invalid_token", error_description="it has expired"'),
            ("", 401, "Bearer"),
        ):
            answer = client.simulate_get("/admin/keys", headers={"authorization": f"Bearer {token}"})
            assert answer.status_code == status
            assert (problem or "") in answer.headers.get("www-authenticate", "")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "expected_message"),
    [
        ("POST", "/admin/keys", {"name": ""}, 400, "name"),
        ("POST", "/admin/keys", {"name": "x", "scopes": ["root"]}, 400, "scopes"),
        ("POST", "/admin/keys", {"name": "x", "scopes": []}, 400, "scopes"),
        ("POST", "/admin/keys", {"name": "x", "secret": "mine"}, 400, "secret"),
        ("POST", "/admin/keys", {"name": "x", "priority": 1000}, 400, "priority"),
        ("PATCH", "/admin/keys/key_none", {"name": "x"}, 404, "key_none"),
        ("DELETE", "/admin/keys/key_none", None, 404, "key_none"),
        ("PUT", "/admin/limits", {"concurrent": -1}, 400, "concurrent"),
        ("PUT", "/admin/limits/key_none", {}, 404, "key_none"),
    ],
)
def test_invalid_policy_requests_name_field_and_fix(
    unstarted: testing.TestClient, method: str, path: str, body: Any, status: int, expected_message: str
) -> None:
    refused = request(unstarted, method, path, body)
    assert refused.status_code == status
    assert expected_message in refused.text


def test_secret_is_returned_only_once(unstarted: testing.TestClient) -> None:
    created = request(unstarted, "POST", "/admin/keys", {"name": "shown once"})
    secret, key_id = created.json["key"], created.json["id"]
    assert created.status_code == 201
    shown = [
        request(unstarted, "GET", path).text
        for path in ("/admin/keys", f"/admin/keys/{key_id}", "/openapi.json", "/admin/limits")
    ]
    assert not any(secret in text for text in shown)
    assert key_id in shown[0]


@pytest.fixture(scope="module")
def server(endless_model: Path) -> Iterator[HostedServer]:
    with hosting(endless_model, "--admin-key", ADMIN) as running:
        yield running


def ask(server: HostedServer, method: str, path: str, body: Any = None, key: str = ADMIN) -> httpx.Response:
    return httpx.request(method, server.url + path, json=body, headers={"x-api-key": key}, timeout=60)


def states(server: HostedServer) -> list[str]:
    return [request["state"] for request in ask(server, "GET", "/requests").json()["requests"]]


def new_key(server: HostedServer, name: str, **fields: Any) -> dict[str, Any]:
    created: dict[str, Any] = ask(server, "POST", "/admin/keys", {"name": name, **fields}).json()
    return created


@pytest.mark.parametrize("streams", [True, False])
def test_open_request_of_a_revoked_key_ends(server: HostedServer, streams: bool) -> None:
    key = new_key(server, f"revoked {streams}")
    body = {"model": "tiny", "messages": HELLO, "max_tokens": 30_000, "stream": streams}
    headers = {"x-api-key": key["key"]}
    with ThreadPoolExecutor() as pool:
        if streams:
            with httpx.stream(
                "POST", f"{server.url}/v1/chat/completions", json=body, headers=headers, timeout=60
            ) as stream:
                lines = stream.iter_lines()
                next(lines)
                assert ask(server, "DELETE", f"/admin/keys/{key['id']}").is_success
                assert "no longer valid" in "".join(lines)
        else:
            answer = pool.submit(ask, server, "POST", "/v1/chat/completions", body, key["key"])
            while not any(
                request["state"] == "answering"
                for request in ask(server, "GET", "/requests").json()["requests"]
            ):
                assert not answer.done()
            ask(server, "DELETE", f"/admin/keys/{key['id']}")
            refused = answer.result()
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
    assert ask(server, "GET", "/v1/models", key=key["key"]).status_code == 401


def test_key_uses_only_its_allowed_models(server: HostedServer) -> None:
    key = new_key(server, "models", models=["qwen*"], scopes=["generate", "models:read", "models:write"])[
        "key"
    ]
    chat = {"model": "tiny", "messages": HELLO, "max_tokens": 1}
    refused = [
        ask(server, "POST", path, body, key)
        for path, body in (
            ("/v1/chat/completions", chat),
            ("/v1/messages", chat),
            ("/v1/messages/count_tokens", {"model": "tiny", "messages": HELLO}),
            ("/models/load", {"model": "tiny"}),
            ("/api/chat", {**chat, "stream": False}),
        )
    ]
    assert [answer.status_code for answer in refused] == [404] * len(refused)
    assert not any("available" in answer.text for answer in refused)
    assert ask(server, "GET", "/v1/models", key=key).json()["data"] == []
    assert ask(server, "GET", "/v1/models/tiny", key=key).status_code == 404


def test_changed_limit_holds_for_the_next_request(server: HostedServer) -> None:
    key = new_key(server, "limited", limits={"models": {"tiny": {"requests_per_minute": 1}}})
    body = {"model": "tiny", "messages": HELLO, "max_tokens": 1}
    answers = [ask(server, "POST", "/v1/messages", body, key["key"]) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 429]
    assert answers[1].json()["error"]["type"] == "rate_limit_error"
    assert 1 <= int(answers[1].headers["retry-after"]) <= 60

    ask(server, "PUT", f"/admin/limits/{key['id']}", {"models": {"tiny": {"requests_per_minute": 2}}})
    assert ask(server, "POST", "/v1/messages", body, key["key"]).status_code == 200


def test_stored_keys_do_not_see_each_other(server: HostedServer) -> None:
    alpha, beta = (
        new_key(server, name, scopes=["generate", "requests:cancel"])["key"] for name in ("alpha", "beta")
    )
    body = {"model": "tiny", "input": "the-safe-opens-with-493817 " * 3, "max_output_tokens": 2}
    response = ask(server, "POST", "/v1/responses", body, alpha).json()["id"]
    assert ask(server, "GET", f"/v1/responses/{response}", key=alpha).is_success
    assert ask(server, "GET", f"/v1/responses/{response}", key=beta).status_code == 404
    cached = [
        ask(server, "POST", "/v1/responses", body, key).json()["usage"]["input_tokens_details"][
            "cached_tokens"
        ]
        for key in (beta, alpha)
    ]
    assert cached[0] == 0
    assert cached[1] > 20


@pytest.mark.parametrize(
    ("sent", "cap", "priority"), [(-100, 5, 5), (7, 5, 7), (None, 5, 5), (-100, None, -100)]
)
def test_priority_is_no_more_urgent_than_that_of_the_key(
    sent: int | None, cap: int | None, priority: int
) -> None:
    packed = PackedRequest.of(GenerationRequest(model="m", priority=sent))
    identity = Caller(name="k", scopes=frozenset(), models=EVERY_MODEL, priority=cap)
    assert call_of_operator(caller=identity).bind(packed).head.priority == priority


def test_commands_manage_the_keys_of_a_server(server: HostedServer) -> None:
    def run(*words: str) -> str:
        result = CliRunner().invoke(app, ["admin", *words, "--url", server.url, "--api-key", ADMIN])
        assert result.exit_code == 0, result.output
        return result.output

    added = json.loads(run("keys", "add", "by command", "--scope", "generate", "--json"))
    assert ask(server, "GET", "/openapi.json", key=added["key"]).is_success
    run("keys", "set", added["id"], "--scope", "models:read")
    run("limits", "set", "--key", added["id"], "--for-model", "ti*", "--requests", "7")
    assert (
        json.loads(run("limits", "show", "--key", added["id"]))["models"]["ti*"]["requests_per_minute"] == 7
    )
    rotated = json.loads(run("keys", "rotate", added["id"], "--json"))["key"]
    assert ask(server, "GET", "/v1/models", key=added["key"]).status_code == 401
    assert ask(server, "GET", "/v1/models", key=rotated).is_success
    assert json.loads(run("guardrails", "show"))["apply_to"] == ["input", "output"]
    assert json.loads(run("guardrails", "test", "hello")) == {"verdict": None, "text": "hello"}
    run("keys", "revoke", added["id"])
    assert ask(server, "GET", "/v1/models", key=rotated).status_code == 401
    assert "by command" in run("keys", "ls")
