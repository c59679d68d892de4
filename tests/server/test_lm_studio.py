"""LM Studio's completions: OpenAI's answers with statistics."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from .process import serving

MODEL = "mlxctl-demo"
CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "Hello!"}], "temperature": 0}


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with serving(None) as running, httpx.Client(base_url=f"{running.url}/api/v0", timeout=60) as opened:
        yield opened


def check(answer: dict[str, Any], reason: str) -> None:
    """Check the fields that LM Studio adds."""
    assert answer["stats"]["stop_reason"] == reason
    assert answer["stats"]["generation_time"] > 0
    assert (answer["model_info"]["format"], answer["runtime"]["name"]) == ("mlx", "mlxctl")


def test_chat_has_statistics_whole_and_streamed(client: httpx.Client) -> None:
    whole = client.post("/chat/completions", json=CHAT).json()
    check(whole, "eosFound")
    lines = client.post("/chat/completions", json=CHAT | {"stream": True}).text.splitlines()
    chunks = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    check(chunks[-1], "eosFound")
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
    assert text == whole["choices"][0]["message"]["content"]


def test_completion_has_statistics(client: httpx.Client) -> None:
    answer = client.post("/completions", json={"model": MODEL, "prompt": "Hello", "max_tokens": 5}).json()
    check(answer, "maxPredictedTokensReached")


def test_unknown_model_is_not_found(client: httpx.Client) -> None:
    answer = client.post("/chat/completions", json=CHAT | {"model": "nothing"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
