"""Other paths under which clients look for the same routes."""

import httpx
import pytest

from .process import ServerProcess

BODY = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}


@pytest.mark.parametrize(
    "path",
    ["/chat/completions", "/v1/chat/completions/", "/api/v0/chat/completions", "/messages", "/v1/messages/"],
)
def test_alias_answers_as_its_route(server: ServerProcess, path: str) -> None:
    answer = httpx.post(f"{server.url}{path}", json=BODY, timeout=60)
    assert (answer.status_code, answer.json()["model"]) == (200, "tiny")


def test_alias_has_the_errors_of_its_route(server: ServerProcess) -> None:
    assert httpx.post(f"{server.url}/messages", json={}).json()["type"] == "error"
    assert httpx.get(f"{server.url}/models/").json() == httpx.get(f"{server.url}/v1/models").json()


def test_lm_studio_lists_the_served_models(server: ServerProcess) -> None:
    (model,) = httpx.get(f"{server.url}/api/v0/models").json()["data"]
    assert (model["id"], model["type"], model["state"]) == ("tiny", "llm", "loaded")
    assert httpx.get(f"{server.url}/api/v0/models/tiny").json() == model
    assert httpx.get(f"{server.url}/api/v0/models/nothing").status_code == 404
