"""A server that asks an OPA-shaped server, and its audit records."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.policy.opa_double import OpaDouble, opa_double

from .process import ServerProcess, serving, wait_for

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "hello there"}], "max_tokens": 1}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture(scope="module")
def opa() -> Iterator[OpaDouble]:
    with opa_double() as double:
        yield double


@pytest.fixture(scope="module")
def server(endless_model: Path, opa: OpaDouble) -> Iterator[ServerProcess]:
    settings = {
        "MLXCTL_OPA_URL": opa.url,
        "MLXCTL_OPA_CACHE_SECONDS": "0",
        "MLXCTL_OPA_TIMEOUT_SECONDS": "20",
    }
    with serving(endless_model, "--audit", **settings) as running:
        yield running


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_denied_request_gets_the_reason(server: ServerProcess, opa: OpaDouble, path: str) -> None:
    opa.result = {"allow": False, "reason": "only at night"}
    denied = httpx.post(server.url + path, json=CHAT, timeout=60)
    assert (denied.status_code, "only at night" in denied.text) == (403, True)
    asked = opa.inputs[-1]
    assert (asked["model"], asked["route"]) == ("tiny", path)
    assert asked["num_tokens"] > 5
    assert len(asked["prompt_sha256"]) == 64

    opa.result = True
    assert httpx.post(server.url + path, json=CHAT, timeout=60).is_success


def test_policy_server_that_fails_stops_requests(server: ServerProcess, opa: OpaDouble) -> None:
    opa.status = 500
    refused = httpx.post(f"{server.url}/v1/chat/completions", json=CHAT, timeout=60)
    opa.status = 200
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "policy_unavailable")


@pytest.mark.parametrize(
    ("traceparent", "trace_id"),
    [
        (f"00-{TRACE}-00f067aa0ba902b7-01", TRACE),
        (f"00-{'0' * 32}-00f067aa0ba902b7-01", None),
        (f"ff-{TRACE}-00f067aa0ba902b7-01", None),
        ("nonsense", None),
    ],
)
def test_audit_record_has_the_trace_id(server: ServerProcess, traceparent: str, trace_id: str | None) -> None:
    headers = {"traceparent": traceparent, "x-request-id": f"traced-{traceparent[:12]}"}
    httpx.get(f"{server.url}/v1/models", headers=headers)

    def record() -> dict[str, Any] | None:
        records = httpx.get(f"{server.url}/admin/audit?limit=5").json()["records"]
        return next((each for each in records if each["request_id"] == headers["x-request-id"]), None)

    wait_for(record, seconds=20)
    assert (record() or {}).get("trace_id") == trace_id
