"""/openapi.json describes every route, method and answer."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from falcon import testing
from fuzz.target import with_short_context
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mlxctl.server.http.openapi import build_document
from mlxctl.server.routes import all_routes
from mlxctl.state.settings import ServerSettings

from .conftest import unstarted_app
from .hosted import HostedServer, hosting
from .openapi_validation import DOCUMENT

OPERATIONS = [(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods]


@pytest.fixture(scope="module")
def described(endless_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostedServer]:
    target = with_short_context(endless_model, tmp_path_factory.mktemp("models") / "short")
    with hosting(target) as running:
        yield running


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
@settings(max_examples=3, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_generated_requests_get_described_answers(
    path: str, method: str, data: st.DataObject, described: HostedServer
) -> None:
    from .generated_requests import CHECKS, requests

    request = data.draw(requests(path, method))
    request.call_and_validate(base_url=described.url, checks=CHECKS, timeout=60)


def test_served_document_equals_the_built_one(described: HostedServer) -> None:
    served = httpx.get(f"{described.url}/openapi.json").json()
    assert served == json.loads(json.dumps(build_document(all_routes(), ServerSettings())))


@pytest.fixture(scope="module")
def unstarted(endless_model: Path) -> testing.TestClient:
    return unstarted_app(endless_model, ServerSettings())


@pytest.mark.parametrize("path", sorted(DOCUMENT["paths"]))
def test_described_methods_are_the_allowed_ones(unstarted: testing.TestClient, path: str) -> None:
    allowed = unstarted.simulate_options(path.replace("{", "").replace("}", "")).headers["allow"].split(", ")
    assert {method.lower() for method in allowed} - {"head", "options"} == set(DOCUMENT["paths"][path])
    assert ("HEAD" in allowed) == ("GET" in allowed)


def test_every_described_type_has_a_description() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    missing = [name for name, schema in schemas.items() if "description" not in schema]
    assert missing == [], "add docstrings to these Structs"


def test_successful_answers_match_the_description(described: HostedServer) -> None:
    from .generated_requests import SCHEMA

    httpx.post(f"{described.url}/v1/agents", json={"model": "tiny", "id": "0"})
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
    for path in ("/v1/chat/completions", "/v1/messages", "/v1/agents/{agent_id}/generate"):
        answer = httpx.post(f"{described.url}{path.format(agent_id=0)}", json=body, timeout=60)
        assert answer.status_code == 200
        SCHEMA[path]["POST"].validate_response(answer)


def test_only_the_servers_own_routes_refuse_unknown_fields() -> None:
    own = {"/v1/agents", "/v1/agents/{agent_id}"}
    of_vllm = {"/v1/load_lora_adapter", "/v1/unload_lora_adapter"}
    for route in all_routes():
        is_own = route.path in own or (route.protocol is None and route.path not in of_vllm)
        for operation in route.operations:
            if operation.body is not None:
                assert operation.body.__struct_config__.forbid_unknown_fields == is_own, (
                    f"{route.path}: bodies of the server's own routes have forbid_unknown_fields=True, "
                    "bodies of other servers' routes do not"
                )
