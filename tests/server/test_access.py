"""API keys, CORS and host names over HTTP."""

import socket
from pathlib import Path
from typing import Any

import falcon
import pytest
from falcon import testing

from mlxctl.state.settings import ServerSettings

from .conftest import unstarted_app
from .openapi_validation import DOCUMENT

KEY = "open-sesame"
ADMIN = "autosave-of-the-keys"


@pytest.fixture(scope="module")
def locked(endless_model: Path) -> testing.TestClient:
    return unstarted_app(endless_model, ServerSettings(api_keys=("other", KEY)))


@pytest.fixture(scope="module")
def friendly(endless_model: Path) -> testing.TestClient:
    return unstarted_app(
        endless_model, ServerSettings(api_keys=(KEY,), cors_origins=("https://chat.example",))
    )


@pytest.mark.parametrize("headers", [{"authorization": f"Bearer {KEY}"}, {"x-api-key": KEY}])
def test_either_key_header_authenticates(locked: testing.TestClient, headers: dict[str, str]) -> None:
    assert locked.simulate_get("/v1/models", headers=headers).status_code == 200


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}, {"x-api-key": "wrong"}])
def test_missing_key_returns_401_in_the_routes_shape(
    locked: testing.TestClient, headers: dict[str, str]
) -> None:
    chat = locked.simulate_post("/v1/chat/completions", json={}, headers=headers)
    messages = locked.simulate_post("/v1/messages", json={}, headers=headers)
    assert (chat.status_code, chat.json["error"]["code"]) == (401, "invalid_api_key")
    assert (messages.status_code, messages.json["error"]["type"]) == (401, "authentication_error")
    assert "www-authenticate" in chat.headers


def test_health_routes_need_no_key_and_reveal_nothing(locked: testing.TestClient) -> None:
    assert locked.simulate_get("/livez").status_code == 200
    assert locked.simulate_head("/api/hello").status_code == 200
    assert locked.simulate_get("/health").json.keys() == {"status", "version"}
    assert "model" in locked.simulate_get("/health", headers={"x-api-key": KEY}).json


def test_no_cors_headers_without_configured_origins(locked: testing.TestClient) -> None:
    result = locked.simulate_get("/livez", headers={"origin": "https://chat.example"})
    assert not [name for name in result.headers if name.startswith("access-control")]


def test_allowed_origin_may_preflight_without_a_key(friendly: testing.TestClient) -> None:
    asks = {
        "origin": "https://chat.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, content-type",
    }
    preflight = friendly.simulate_options("/v1/messages", headers=asks)
    refused = friendly.simulate_post("/v1/messages", json={}, headers={"origin": "https://chat.example"})
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-headers"] == "authorization, content-type"
    assert preflight.headers["access-control-allow-origin"] == "https://chat.example"
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (
        401,
        "https://chat.example",
    )


def test_other_origins_get_no_cors_headers(friendly: testing.TestClient) -> None:
    asks = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    preflight = friendly.simulate_options("/v1/messages", headers=asks)
    assert "access-control-allow-origin" not in preflight.headers
    assert preflight.headers["vary"] == "Origin"


def test_wildcard_origin_never_allows_credentials(endless_model: Path) -> None:
    client = unstarted_app(endless_model, ServerSettings(cors_origins=("*",)))
    result = client.simulate_get("/livez", headers={"origin": "https://anywhere.example"})
    assert result.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in result.headers


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8080", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST", "mac.local"]
)
def test_loopback_accepts_loopback_and_configured_hosts(endless_model: Path, host: str) -> None:
    client = unstarted_app(endless_model, ServerSettings(allowed_hosts=("mac.local",)))
    assert client.simulate_get("/livez", host=host).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example:8080", "192.168.0.5", "127.0.0.1.nip.io"]
)
def test_loopback_refuses_foreign_hosts(locked: testing.TestClient, host: str) -> None:
    result = locked.simulate_get("/v1/models", host=host, headers={"x-api-key": KEY})
    assert (result.status_code, result.json["error"]["code"]) == (400, "host_not_allowed")


NAMES = ["192.168.0.5:8080", "[fe80::1]:8080", "mac.local", "host.docker.internal", socket.gethostname()]
FOREIGN_NAMES = ["evil.example", "127.0.0.1.nip.io", "mac.local.evil.example", "local", "2130706433"]


@pytest.mark.parametrize(
    ("host", "status"), [*((name, 200) for name in NAMES), *((name, 400) for name in FOREIGN_NAMES)]
)
def test_server_without_keys_knows_only_private_names(endless_model: Path, host: str, status: int) -> None:
    client = unstarted_app(endless_model, ServerSettings(host="0.0.0.0"))
    assert client.simulate_get("/livez", host=host).status_code == status


def test_any_host_is_accepted_with_keys_and_without_configured_hosts(endless_model: Path) -> None:
    keyed = unstarted_app(endless_model, ServerSettings(host="0.0.0.0", api_keys=(KEY,)))
    chosen = unstarted_app(endless_model, ServerSettings(host="0.0.0.0", allowed_hosts=("mac.local",)))
    assert keyed.simulate_get("/livez", host="tower.example").status_code == 200
    assert chosen.simulate_get("/livez", host="tower.example").status_code == 400


@pytest.mark.parametrize(("host", "is_opened"), [("mac.local", True), ("evil.example", False)])
def test_origin_that_equals_an_unknown_host_is_foreign(
    endless_model: Path, host: str, is_opened: bool
) -> None:
    client = unstarted_app(endless_model, ServerSettings(host="0.0.0.0", api_keys=(KEY,)))
    headers = {"x-api-key": KEY, "origin": f"http://{host}", "sec-fetch-site": "same-origin"}
    assert opens_socket(client, host, headers) is is_opened


@pytest.mark.parametrize("upgrade", ["websocket", "websocket, foo"])
def test_socket_of_a_foreign_origin_is_refused(endless_model: Path, upgrade: str) -> None:
    client = unstarted_app(endless_model, ServerSettings())
    headers = {"origin": "http://evil.example", "upgrade": upgrade}
    assert not opens_socket(client, "localhost", headers)


def opens_socket(client: testing.TestClient, host: str, headers: dict[str, str]) -> bool:
    """Whether the application accepts a WebSocket."""
    scope = testing.create_scope_ws("/v1/responses", host=host, headers=headers)
    received = [{"type": "websocket.disconnect", "code": 1000}, {"type": "websocket.connect"}]
    sent = []

    async def receive() -> dict[str, Any]:
        return received.pop()

    async def send(event: dict[str, Any]) -> None:
        sent.append(event["type"])

    falcon.async_to_sync(client.app, scope, receive, send)
    return sent[0] == "websocket.accept"


@pytest.mark.parametrize("path", ["/cache/clear", "/v1/chat/completions", "/models/unload"])
@pytest.mark.parametrize("content_type", ["text/plain", ""])
def test_cross_site_post_without_preflight_is_refused(
    endless_model: Path, path: str, content_type: str
) -> None:
    client = unstarted_app(endless_model, ServerSettings())
    headers = {"origin": "https://evil.example", "content-type": content_type}
    result = client.simulate_post(path, body='{"model": "tiny"}', headers=headers)
    assert (result.status_code, result.json["error"]["code"]) == (400, "origin_not_allowed")


CHANGES = [
    ("PUT", "/admin/limits"),
    ("PUT", "/admin/guardrails"),
    ("POST", "/models/unload"),
    ("DELETE", "/v1/adapters/x"),
]


@pytest.mark.parametrize(
    "path",
    [
        "/cache",
        "/requests",
        "/slots",
        "/stats",
        "/v1/agents",
        "/v1/agents/a/messages",
        "/v1/responses/r",
        "/v1/responses/r/input_items",
    ],
)
def test_any_origin_does_not_read_texts_of_others_without_keys(endless_model: Path, path: str) -> None:
    client = unstarted_app(endless_model, ServerSettings(cors_origins=("*",)))
    result = client.simulate_get(path, headers={"origin": "https://evil.example"})
    assert (result.status_code, "may only list models and generate" in result.text) == (400, True)


@pytest.mark.parametrize("path", ["/v1/models", "/api/tags", "/livez", "/props"])
def test_any_origin_reads_models_without_keys(endless_model: Path, path: str) -> None:
    client = unstarted_app(endless_model, ServerSettings(cors_origins=("*",)))
    result = client.simulate_get(path, headers={"origin": "https://page.example"})
    assert (result.status_code, result.headers["access-control-allow-origin"]) == (200, "*")


def test_any_origin_generates_but_unloads_nothing_without_keys(endless_model: Path) -> None:
    client = unstarted_app(endless_model, ServerSettings(cors_origins=("*",)))
    headers = {"origin": "https://page.example"}
    asked = {"model": "tiny", "messages": [{"role": "user", "content": 3}]}
    generation = client.simulate_post("/v1/chat/completions", json=asked, headers=headers)
    changes = [
        client.simulate_request(method, path, json={}, headers=headers)
        for method, path in (
            ("DELETE", "/v1/agents/coder"),
            ("POST", "/v1/agents"),
            ("POST", "/v1/agents/coder/reset"),
            ("DELETE", "/v1/responses/r"),
            ("DELETE", "/requests/r"),
            ("POST", "/api/v1/models/unload"),
        )
    ]
    assert "messages" in generation.json["error"]["message"]
    assert all("origin_not_allowed" in change.text for change in changes)


def test_form_of_another_site_without_an_origin_is_refused(endless_model: Path) -> None:
    for origins in ((), ("*",)):
        client = unstarted_app(endless_model, ServerSettings(cors_origins=origins))
        headers = {"sec-fetch-site": "cross-site", "content-type": "text/plain"}
        result = client.simulate_post("/cache/clear", body="{}", headers=headers)
        assert "origin_not_allowed" in result.text


@pytest.mark.parametrize(("method", "path"), CHANGES)
@pytest.mark.parametrize("origins", [(), ("*",)])
def test_foreign_pages_do_not_change_a_server_without_keys(
    endless_model: Path, method: str, path: str, origins: tuple[str, ...]
) -> None:
    client = unstarted_app(endless_model, ServerSettings(cors_origins=origins))

    def code(**headers: str) -> object:
        result = client.simulate_request(
            method, path, json={"unknown": 1}, headers=headers, host="127.0.0.1:8080"
        )
        return result.json.get("code") or result.json.get("error", {}).get("code")

    for origin in ("https://evil.example", "null", "http://127.0.0.1:9999"):
        assert code(origin=origin) == "origin_not_allowed"
    assert code(origin="http://127.0.0.1:8080") != "origin_not_allowed"
    proxied = {"origin": "https://mac.example", "sec-fetch-site": "same-origin"}
    assert code(**proxied) != "origin_not_allowed"
    assert code() != "origin_not_allowed"


def test_listed_origins_and_keys_may_change_a_server(endless_model: Path) -> None:
    listed = unstarted_app(endless_model, ServerSettings(cors_origins=("https://panel.example",)))
    keyed = unstarted_app(endless_model, ServerSettings(cors_origins=("*",), api_keys=(KEY,)))
    headers = {"origin": "https://panel.example", "x-api-key": KEY}
    for client in (listed, keyed):
        result = client.simulate_put("/admin/limits", json={"unknown": 1}, headers=headers)
        assert (result.status_code, "unknown" in result.text) == (400, True)


def test_programs_and_allowed_origins_may_post(endless_model: Path, friendly: testing.TestClient) -> None:
    program = unstarted_app(endless_model, ServerSettings()).simulate_post(
        "/v1/messages", body="{", headers={"content-type": "x/y"}
    )
    headers = {"origin": "https://chat.example", "content-type": "text/plain", "x-api-key": KEY}
    page = friendly.simulate_post("/v1/messages", body="{", headers=headers)
    assert "not valid JSON" in program.json["error"]["message"]
    assert "not valid JSON" in page.json["error"]["message"]


@pytest.fixture(scope="module")
def kept(endless_model: Path) -> testing.TestClient:
    return unstarted_app(endless_model, ServerSettings(api_keys=(KEY,), admin_keys=(ADMIN,)))


_ADMINISTERS = [
    (method, path)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
    if {"admin_key": []} in operation.get("security", ())
]


def test_routes_about_all_callers_need_an_admin_key() -> None:
    assert {"/cache", "/cache/explain", "/cache/clear", "/models/unload", "/requests"} <= {
        path for _, path in _ADMINISTERS
    }
    assert all("403" in DOCUMENT["paths"][path][method]["responses"] for method, path in _ADMINISTERS)


@pytest.mark.parametrize(("method", "path"), _ADMINISTERS)
def test_an_api_key_alone_does_not_administer(kept: testing.TestClient, method: str, path: str) -> None:
    refused = kept.simulate_request(method.upper(), path, json={}, headers={"x-api-key": KEY})
    anthropic_error = kept.simulate_request(
        method.upper(), path, json={}, headers={"x-api-key": KEY, "anthropic-version": "2023-06-01"}
    )
    assert refused.status_code == 403
    assert 'error="insufficient_scope"' in refused.headers["www-authenticate"]
    assert (anthropic_error.status_code, anthropic_error.json["error"]["type"]) == (403, "permission_error")
    assert kept.simulate_request(method.upper(), path, json={}).status_code == 401
    with_admin_key = kept.simulate_request(method.upper(), path, json={}, headers={"x-api-key": ADMIN})
    assert with_admin_key.status_code != 401
    assert with_admin_key.status_code != 403 or with_admin_key.json["error"]["code"] == "feature_disabled"


def test_api_and_admin_keys_may_generate(kept: testing.TestClient, locked: testing.TestClient) -> None:
    for key in (KEY, ADMIN):
        assert kept.simulate_get("/v1/models", headers={"x-api-key": key}).status_code == 200
    assert locked.simulate_get("/requests", headers={"x-api-key": KEY}).status_code == 200
