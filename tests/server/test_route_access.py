"""Access of every route of the table."""

from collections.abc import Iterator
from pathlib import Path

import falcon.inspect
import httpx
import pytest
from falcon import testing

from mlxctl.ir.policy import SCOPES, USER_SCOPES
from mlxctl.server import create_app
from mlxctl.server.http.disconnect import DisconnectWatch
from mlxctl.server.http.root_path import RootPath
from mlxctl.server.http.route import Route
from mlxctl.server.http.web_sockets import WebSockets
from mlxctl.server.routes import all_routes
from mlxctl.state.settings import ServerSettings

from .conftest import unstarted_app, unstarted_services
from .hosted import HostedServer, hosting

ALPHA, BETA, ADMIN = "key-of-alpha", "key-of-beta", "key-of-admin"
SECRET = "the-safe-opens-with-493817 " * 3


ACCESS = {
    "open": """
        / /health /v1/health /healthz /livez /readyz /api/hello
        /ui /ui/index.html /ui/page.js /ui/highlight-worker.js /ui/temml.min.js
    """,
    "caller": """
        /openapi.json /props /tokenizer_info /version /api/version /requests/{request_id}
        /load
    """,
    "generate": """
        /v1/chat/completions /chat/completions /v1/completions /completions /v1/messages /messages
        /v1/messages/count_tokens /messages/count_tokens
        /v1/responses /responses /v1/responses/input_tokens /responses/input_tokens
        /v1/responses/compact /responses/compact /v1/responses/{response_id}
        /v1/responses/{response_id}/cancel /v1/responses/{response_id}/input_items /v1/agents
        /v1/agents/{agent_id} /v1/agents/{agent_id}/messages /v1/agents/{agent_id}/reset
        /v1/agents/{agent_id}/generate /api/chat /api/generate /completion /infill /tokenize /v1/tokenize
        /detokenize /v1/detokenize /apply-template /v1/chat/completions/input_tokens
        /chat/completions/input_tokens /api/v0/chat/completions /api/v0/completions /api/v1/chat
    """,
    "embed": """
        /v1/embeddings /embeddings /api/v0/embeddings /api/embed /api/embeddings /v1/rerank /rerank
        /v1/reranking /reranking /v2/rerank /embedding
    """,
    "audio": """
        /v1/audio/transcriptions /v1/audio/translations /audio/transcriptions /audio/translations
        /v1/audio/speech /audio/speech /v1/audio/voices /audio/voices /v1/realtime /realtime
    """,
    "models:read": """
        /v1/models /models /v1/models/{name:path} /library /fit /api/tags /api/ps /api/show /api/pull
        /api/v0/models /api/v0/models/{name:path} /api/v1/models
    """,
    "models:write": """
        /models/load /models/unload /models/pin /models/unpin /downloads /downloads/{repository:path}
        /library/hub
        /api/v1/models/load /api/v1/models/unload /api/v1/models/download
        /api/v1/models/download/status/{job_id}
    """,
    "adapters:write": """
        /v1/adapters /v1/adapters/{name} /v1/load_lora_adapter /v1/unload_lora_adapter /lora-adapters
    """,
    "cache:read": "/cache /cache/explain",
    "cache:write": "/cache/pin /cache/unpin /cache/drop /cache/clear /cache/gc /slots/{slot}",
    "requests:read": "/requests /slots",
    "metrics:read": "/stats /metrics",
    "audit:read": "/admin/audit",
    "admin": """
        /admin/keys /admin/keys/{key_id} /admin/keys/{key_id}/rotate /admin/limits /admin/limits/{key_id}
        /admin/guardrails /admin/guardrails/test /admin/scheduler /admin/cache
    """,
}
"""The access that each path needs. A new route gets its row here."""
COVERS_ALL_CALLERS = """
    /cache /cache/explain /cache/pin /cache/unpin /cache/drop /cache/clear /cache/gc /admin/audit /admin/keys
    /admin/keys/{key_id} /admin/keys/{key_id}/rotate /admin/limits /admin/limits/{key_id} /admin/guardrails
    /admin/guardrails/test
"""
ROUTES = all_routes()


def calls() -> Iterator[tuple[Route, str, str]]:
    """Yield each route with each of its methods and paths."""
    for route in ROUTES:
        # Files of the web page are not described.
        methods = {operation.method.upper() for operation in route.operations} or {"GET"}
        if "GET" in methods:
            methods.add("HEAD")
        for method in sorted(methods):
            for path in route.paths:
                yield route, method, path


def test_application_has_no_route_outside_the_table(endless_model: Path) -> None:
    settings = ServerSettings(api_keys=(ALPHA,))
    unstarted_app(endless_model, settings)
    below_root = create_app(unstarted_services(), settings)
    assert isinstance(below_root, RootPath)
    socket = below_root.application
    assert isinstance(socket, WebSockets)
    watch = socket.application
    assert isinstance(watch, DisconnectWatch)
    served = {
        (route.path, method.method)
        for route in falcon.inspect.inspect_routes(watch.application)
        for method in route.methods
        if not method.internal
    }
    assert served == {(path, method) for _, method, path in calls()}


def test_every_route_has_the_access_of_this_table() -> None:
    routes = all_routes()
    access = {path: route.access for route in routes for path in route.paths}
    assert access == {path: name for name, paths in ACCESS.items() for path in paths.split()}
    covering = {path for route in routes if route.covers_all_callers for path in route.paths}
    assert covering == set(COVERS_ALL_CALLERS.split())


@pytest.mark.parametrize("headers", [{}, {"x-api-key": "wrong"}, {"authorization": f"Bearer {ALPHA}x"}])
def test_only_open_routes_answer_without_a_valid_key(endless_model: Path, headers: dict[str, str]) -> None:
    client = unstarted_app(endless_model, ServerSettings(api_keys=(ALPHA,)))
    for route, method, path in calls():
        status = client.simulate_request(method, _address(path, "x"), headers=headers).status_code
        assert (status == 401) == (route.access != "open"), (method, path)


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
    for route, method, path in calls():
        result = client.simulate_request(method, _address(path, "x"), headers={"x-api-key": key}, body=b"{}")
        is_refused = missing is not None and (route.covers_all_callers or route.access in missing)
        is_forbidden = result.status_code == 403 and "feature_disabled" not in result.text
        assert is_forbidden == is_refused, (method, path)


def test_only_key_may_administer(endless_model: Path) -> None:
    client: testing.TestClient = unstarted_app(endless_model, ServerSettings(api_keys=(ALPHA,)))
    for route in ("/cache", "/stats", "/metrics", "/requests"):
        assert client.simulate_get(route, headers={"x-api-key": ALPHA}).status_code not in (401, 403)


@pytest.fixture(scope="module")
def server(endless_model: Path) -> Iterator[HostedServer]:
    with hosting(endless_model, "--api-key", ALPHA, "--api-key", BETA) as running:
        yield running


def test_no_route_reveals_data_of_another_key(server: HostedServer) -> None:
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

        for _, method, path in calls():
            name = response if "response_id" in path else agent
            answer = beta.request(method, _address(path, name), json=turn if method == "POST" else {})
            _check(answer, path, has_name="_id}" in path)

        of_alpha, of_beta = (
            {entry["number"] for entry in client.get("/requests").json()["requests"]}
            for client in (alpha, beta)
        )
        assert of_alpha
        assert not of_alpha & of_beta
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
