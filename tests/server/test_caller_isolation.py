"""Isolation of two API keys, also after a restart."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from .hosted import hosting

ALPHA, BETA, GAMMA, DELTA = "key-of-alpha", "key-of-beta", "key-of-gamma", "key-of-delta"
SECRET = " ".join(f"clause {number}" for number in range(30)) + " The code of the safe is 493817."

Ask = Callable[[httpx.Client, str, dict[str, Any]], int]


def chat(client: httpx.Client, text: str, more: dict[str, Any]) -> int:
    body = {"model": "tiny", "messages": [{"role": "user", "content": text}], "max_tokens": 1, **more}
    return int(
        json_of(client.post("/v1/chat/completions", json=body))["usage"]["prompt_tokens_details"][
            "cached_tokens"
        ]
    )


def completion(client: httpx.Client, text: str, more: dict[str, Any]) -> int:
    body = {"model": "tiny", "prompt": text, "max_tokens": 1, **more}
    return int(
        json_of(client.post("/v1/completions", json=body))["usage"]["prompt_tokens_details"]["cached_tokens"]
    )


def response(client: httpx.Client, text: str, more: dict[str, Any]) -> int:
    body = {"model": "tiny", "input": text, "max_output_tokens": 1, **more}
    return int(
        json_of(client.post("/v1/responses", json=body))["usage"]["input_tokens_details"]["cached_tokens"]
    )


def message(client: httpx.Client, text: str, more: dict[str, Any]) -> int:
    body = {"model": "tiny", "messages": [{"role": "user", "content": text}], "max_tokens": 1, **more}
    return int(json_of(client.post("/v1/messages", json=body))["usage"]["cache_read_input_tokens"])


def agent_turn(client: httpx.Client, text: str, more: dict[str, Any]) -> int:
    return _turn(client, text, {}, more)


def salted_agent(client: httpx.Client, text: str, more: dict[str, Any]) -> int:
    return _turn(client, text, more, {})


def _turn(client: httpx.Client, text: str, of_agent: dict[str, Any], of_turn: dict[str, Any]) -> int:
    agent = json_of(client.post("/v1/agents", json={"model": "tiny", **of_agent}))["id"]
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 1, **of_turn}
    answer = json_of(client.post(f"/v1/agents/{agent}/generate", json=body))
    return int(answer["usage"]["prompt_tokens_details"]["cached_tokens"])


ASKING: list[Ask] = [chat, completion, response, message, agent_turn]


def json_of(answer: httpx.Response) -> dict[str, Any]:
    assert answer.is_success, answer.text
    body: dict[str, Any] = answer.json()
    return body


Clients = dict[str, httpx.Client]


@contextmanager
def locked_server(model: Path, cache: Path) -> Iterator[Clients]:
    """A server with four keys, and a client for each.

    Two keys are in one cache group.
    """
    keys = (ALPHA, BETA, GAMMA, DELTA)
    groups = ["--cache-group", f"team={GAMMA}", "--cache-group", f"team={DELTA}"]
    given = [argument for key in keys for argument in ("--api-key", key)]
    environment = {"XDG_CACHE_HOME": str(cache), "MLXCTL_ENGINE_CACHE_MIN_FREE_BYTES": "0"}
    with hosting(model, *given, *groups, **environment) as server, ExitStack() as stack:
        clients = {
            key: httpx.Client(base_url=server.url, headers={"x-api-key": key}, timeout=60) for key in keys
        }
        for client in clients.values():
            stack.enter_context(client)
        yield clients


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def clients(endless_model: Path, cache: Path) -> Iterator[Clients]:
    """Clients of a server restarted after ALPHA sent the secret.

    Through every protocol.
    """
    with locked_server(endless_model, cache) as clients:
        for ask in ASKING:
            ask(clients[ALPHA], prompt_with_secret(ask), {})
    with locked_server(endless_model, cache) as clients:
        yield clients


def prompt_with_secret(ask: Ask) -> str:
    """Return the secret in a distinct prompt for each protocol."""
    return f"{ask.__name__}: {SECRET}"


@pytest.mark.parametrize("ask", ASKING)
def test_cached_prompt_belongs_to_its_key_after_restart(clients: Clients, ask: Ask) -> None:
    assert ask(clients[BETA], prompt_with_secret(ask), {}) == 0
    assert ask(clients[ALPHA], prompt_with_secret(ask), {}) > 200


@pytest.mark.parametrize("ask", ASKING)
def test_guesses_of_a_cached_secret_get_equal_answers(clients: Clients, ask: Ask) -> None:
    token_text = f"guess {prompt_with_secret(ask)}"
    ask(clients[ALPHA], token_text, {})
    start = token_text[: token_text.index("493817")]
    cached = [
        ask(clients[BETA], guess, {}) for guess in (start, *(f"{start}{digit}93817." for digit in "012345"))
    ]
    assert cached[0] == 0
    assert len(set(cached[1:])) == 1


def test_keys_of_a_cache_group_share_prefixes(clients: Clients) -> None:
    assert chat(clients[GAMMA], SECRET, {}) == 0
    assert chat(clients[DELTA], SECRET, {}) > 200


@pytest.mark.parametrize("ask", [*ASKING, salted_agent])
def test_cache_salt_separates_requests_of_one_key(clients: Clients, ask: Ask) -> None:
    text = f"salted {prompt_with_secret(ask)}"
    plain, salted, other, again = (
        ask(clients[ALPHA], text, more)
        for more in ({}, {"cache_salt": "a"}, {"cache_salt": "b"}, {"cache_salt": "a"})
    )
    assert (plain, salted, other) == (0, 0, 0)
    assert again > 200


def test_salt_of_another_key_matches_nothing(clients: Clients) -> None:
    text = f"salted {SECRET}"
    chat(clients[ALPHA], text, {"cache_salt": "pepper"})
    assert chat(clients[BETA], text, {"cache_salt": "pepper"}) == 0


def test_thread_of_another_key_is_unknown(clients: Clients) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    created = json_of(clients[ALPHA].post("/v1/messages", json=body | {"thread": {"type": "create"}}))
    more = {"thread": {"type": "continue", "previous_message_id": created["id"]}}
    refused = clients[BETA].post("/v1/messages", json=body | more)
    assert refused.status_code == 404
    assert refused.json()["error"]["details"] == {"error_code": "thread_not_found"}
    assert clients[ALPHA].post("/v1/messages", json=body | more).is_success
    assert clients[ALPHA].get(f"/v1/responses/{created['id']}").status_code == 404


@pytest.mark.parametrize("salt", ["", 3, "x" * 257])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
        ("/v1/completions", {"prompt": "hi"}),
        ("/v1/responses", {"input": "hi"}),
        ("/v1/messages", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}),
        ("/v1/agents", {}),
    ],
)
def test_invalid_salt_is_refused(clients: Clients, path: str, body: dict[str, Any], salt: object) -> None:
    refused = clients[ALPHA].post(path, json={"model": "tiny", **body, "cache_salt": salt})
    assert refused.status_code == 400
    assert "cache_salt" in refused.text


def test_no_key_is_written_to_disk(clients: Clients, cache: Path) -> None:
    del clients
    written = [file for file in cache.rglob("*") if file.is_file()]
    assert written
    assert not [
        file
        for file in written
        if any(key.encode() in file.read_bytes() for key in (ALPHA, BETA, GAMMA, DELTA))
    ]
