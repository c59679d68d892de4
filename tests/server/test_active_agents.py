"""Agents of requests: named by clients, or derived from the opening."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from .hosted import HostedServer, hosting
from .process import wait_for

ALPHA, BETA = {"x-api-key": "key-of-alpha"}, {"x-api-key": "key-of-beta"}
ADMIN = {"x-api-key": "key-of-the-admin"}
SYSTEM = "You are a ferryman. " * 20
FIRST = {"role": "user", "content": "Where is the zebra-canary-5512?"}
LATER = [{"role": "assistant", "content": "At the river."}, {"role": "user", "content": "Why?"}]


@pytest.fixture(scope="module")
def server(endless_model: Path) -> Iterator[HostedServer]:
    keys = [argument for key in (ALPHA, BETA) for argument in ("--api-key", key["x-api-key"])]
    keys += ["--admin-key", ADMIN["x-api-key"], "--audit"]
    with hosting(endless_model, *keys) as running:
        yield running


def agent_of(server: HostedServer, path: str, body: dict[str, Any], key: dict[str, str] = ALPHA) -> str:
    """Send a request and return its agent in /requests."""
    limits = {} if "responses" in path else {"max_tokens": 2}
    answer = httpx.post(f"{server.url}{path}", json=limits | body, headers=key, timeout=60)
    assert answer.is_success, answer.text
    number = answer.headers["x-request-id"]
    views = httpx.get(f"{server.url}/requests", headers=ADMIN).json()["requests"]
    return str(next(view["agent"] for view in views if view["request_id"] == number))


def chat(server: HostedServer, *later: Any, key: dict[str, str] = ALPHA, **fields: Any) -> str:
    messages = [{"role": "system", "content": SYSTEM}, FIRST, *later]
    return agent_of(server, "/v1/chat/completions", {"model": "tiny", "messages": messages, **fields}, key)


def test_turns_of_a_conversation_have_one_agent_in_all_protocols(server: HostedServer) -> None:
    first, second = chat(server), chat(server, *LATER)
    of_anthropic = agent_of(
        server, "/v1/messages", {"model": "tiny", "system": SYSTEM, "messages": [FIRST, *LATER]}
    )
    tool = {"type": "function", "function": {"name": "row", "parameters": {"type": "object"}}}

    assert first == second == of_anthropic
    assert first.startswith("auto-")
    assert chat(server, tools=[tool]) not in (first, "None")


def test_derived_agents_differ_between_callers_and_salts(server: HostedServer) -> None:
    found = {chat(server), chat(server, key=BETA), chat(server, cache_salt="of my own")}

    assert len(found) == 3


def test_session_ids_and_stored_agents_name_the_agent(server: HostedServer) -> None:
    stored = {"id": "rower", "model": "tiny", "instructions": SYSTEM}
    httpx.post(f"{server.url}/v1/agents", json=stored, headers=ALPHA).raise_for_status()

    assert chat(server, session_id="crossing-1") == "crossing-1"
    assert agent_of(server, "/v1/agents/rower/generate", {"messages": [FIRST]}) == "rower"
    assert agent_of(server, "/v1/completions", {"model": "tiny", "prompt": "The river"}) == "None"


def test_audit_log_has_agents(server: HostedServer) -> None:
    agent = chat(server)

    def recorded() -> list[str | None]:
        answer = httpx.get(f"{server.url}/admin/audit", headers=ADMIN)
        return [record.get("agent") for record in answer.json()["records"]]

    wait_for(lambda: agent in recorded(), seconds=60)


def test_health_and_metrics_count_agents_by_cache_status(server: HostedServer) -> None:
    chat(server, session_id="hot-one")
    chat(server, session_id="cold-one", cache_mode="off", tools=[])

    def health() -> dict[str, Any]:
        agents: dict[str, Any] = httpx.get(f"{server.url}/health", headers=ADMIN).json()["agents"]
        return agents

    wait_for(lambda: (health()["hot"] or 0) >= 2, seconds=60)
    metrics = httpx.get(f"{server.url}/metrics", headers=ADMIN).text
    counted = health()
    assert f'mlxctl_agents{{status="hot"}} {counted["hot"]}.0' in metrics
    assert 'mlxctl_agents{status="warm"} 0.0' in metrics
