"""mlxctl's own fields have effect on every route that generates."""

import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mlxctl.prefix_cache.disk.inspection import DiskInspector
from tests.tiny_models.adapters import random_adapter

from .hosted import HostedServer, hosting

TURN = "very long " * 70
_numbers = itertools.count()


def messages(*texts: str) -> list[dict[str, str]]:
    roles = itertools.cycle(("user", "assistant"))
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]


def chat(*texts: str) -> dict[str, Any]:
    return {"model": "tiny", "messages": messages(*texts), "max_tokens": 2}


def prompt(*texts: str) -> dict[str, Any]:
    return {"model": "tiny", "prompt": "".join(texts), "max_tokens": 2}


def ollama(**fields: Any) -> dict[str, Any]:
    return {"model": "tiny", "stream": False, "options": {"num_predict": 2}, **fields}


BODIES: dict[str, Any] = {
    "/v1/chat/completions": chat,
    "/v1/completions": prompt,
    "/v1/responses": lambda *texts: {
        "model": "tiny",
        "input": messages(*texts),
        "max_output_tokens": 2,
        "store": False,
    },
    "/v1/messages": chat,
    "/v1/agents/AGENT/generate": chat,
    "/api/v0/chat/completions": chat,
    "/api/v0/completions": prompt,
    "/api/v1/chat": lambda *texts: {
        "model": "tiny",
        "input": texts[-1],
        "max_output_tokens": 2,
        "store": False,
    },
    "/api/chat": lambda *texts: ollama(messages=messages(*texts)),
    "/api/generate": lambda *texts: ollama(prompt="".join(texts), raw=True),
    "/completion": lambda *texts: {"prompt": "".join(texts), "n_predict": 2},
}
"""Bodies of a conversation, or of its text, by route."""

STORES_THE_TTL = [path for path in BODIES if not path.startswith("/api/v")]
"""LM Studio's `ttl` is that of the model."""

ROUTES = pytest.mark.parametrize("path", BODIES)


def post(server: HostedServer, path: str, *texts: str, request_id: str = "", **fields: Any) -> httpx.Response:
    """Send a conversation to a route, or to a new agent."""
    with httpx.Client(base_url=server.url, timeout=60) as client:
        agent_id = ""
        if "AGENT" in path:
            agent = client.post("/v1/agents", json={"model": "tiny", "persist": False})
            agent_id = agent.raise_for_status().json()["id"]
        body = {**BODIES[path](*texts), **fields}
        url = path.replace("AGENT", agent_id)
        return client.post(url, json=body, headers={"x-request-id": request_id or "any"})


def seen(server: HostedServer, path: str, text: str, **fields: Any) -> dict[str, Any]:
    """Send a request and return its row in `GET /requests`."""
    request_id = f"request-{next(_numbers)}"
    post(server, path, text, request_id=request_id, **fields).raise_for_status()
    listed = httpx.get(f"{server.url}/requests").json()["requests"]
    row: dict[str, Any] = next(each for each in listed if each["request_id"] == request_id)
    return row


def stats(server: HostedServer) -> dict[str, Any]:
    figures: dict[str, Any] = httpx.get(f"{server.url}/stats").json()
    return figures


@pytest.fixture(scope="module")
def short_model(endless_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An endless model with a context of 1,024 tokens."""
    model = shutil.copytree(endless_model, tmp_path_factory.mktemp("models") / "short")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 1024}))
    return model


@pytest.fixture(scope="module")
def short(short_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostedServer]:
    """A server with the adapter `noise`."""
    noise = random_adapter(short_model, tmp_path_factory.mktemp("adapters") / "noise", seed=5)
    with hosting(short_model, "--adapter", f"noise={noise}") as running:
        yield running


@ROUTES
def test_session_adapter_salt_and_priority_have_effect(short: HostedServer, path: str) -> None:
    text, priority = f"{path} tells of the sea and the hills. " * 4, 20 + list(BODIES).index(path)
    first = seen(short, path, text, session_id="work", adapter="noise", cache_salt="a", priority=priority)
    again = seen(short, path, text, adapter="noise", cache_salt="a")
    elsewhere = seen(short, path, text, adapter="noise", cache_salt="b")

    assert (first["session_id"], first["adapter"], first["num_cached_tokens"]) == ("work", "noise", 0)
    assert again["num_cached_tokens"] > 0
    assert elsewhere["num_cached_tokens"] == 0
    assert str(priority) in stats(short)["tokens_by_priority"]


@ROUTES
def test_wrong_values_get_an_error_of_the_protocol_that_names_the_field(
    short: HostedServer, path: str
) -> None:
    wrong = {"cache_mode": "sometimes", "ttl": -1, "priority": 1000, "session_id": "", "adapter": "missing"}
    for field, value in wrong.items():
        refused = post(short, path, "Hi", **{field: value})
        error = refused.json()["error"]
        text = error if isinstance(error, str) else error["message"]
        assert (refused.status_code, field in text) == (400, True), text
        if path == "/v1/messages":
            assert refused.json()["type"] == "error"
        elif path not in ("/api/chat", "/api/generate", "/completion"):
            assert error["param"] == field


@pytest.mark.parametrize("path", [path for path in BODIES if path != "/api/v1/chat"])
@pytest.mark.parametrize("policy", ["drop_oldest", "compact"])
def test_overflow_policy_shortens_the_prompt(short: HostedServer, path: str, policy: str) -> None:
    turns = (TURN, "Yes.", TURN, "No.", TURN)
    assert post(short, path, *turns).status_code == 400
    assert post(short, path, *turns, context_overflow=policy).status_code == 200


def test_overflow_policy_shortens_a_stored_chat_of_lm_studio(short: HostedServer) -> None:
    body, previous = {"model": "tiny", "input": TURN[:500], "max_output_tokens": 2}, None
    for _ in range(2):
        answer = httpx.post(f"{short.url}/api/v1/chat", json={**body, "previous_response_id": previous})
        previous = answer.raise_for_status().json()["response_id"]
    body["previous_response_id"] = previous
    assert httpx.post(f"{short.url}/api/v1/chat", json=body).status_code == 400
    shortened = httpx.post(f"{short.url}/api/v1/chat", json={**body, "context_overflow": "drop_oldest"})
    assert shortened.status_code == 200


def test_requests_that_store_nothing_leave_memory_and_disk_empty(short_model: Path, tmp_path: Path) -> None:
    with hosting(short_model, "--cache-dir", str(tmp_path / "cache")) as server:
        for path in BODIES:
            post(server, path, f"{path} is a secret. " * 8, cache_mode="off").raise_for_status()
        for path in STORES_THE_TTL:
            post(server, path, f"{path} is a secret. " * 8, ttl=0).raise_for_status()
        assert stats(server)["prompt_cache"]["entries"] == 0
        post(server, "/v1/messages", "This one is kept. " * 8).raise_for_status()
        assert stats(server)["prompt_cache"]["entries"] == 1
    disk = DiskInspector.open(tmp_path / "cache")
    assert len(disk.entries()) == 1
    disk.close()
