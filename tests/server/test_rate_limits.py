"""Rate limits of a running server, with both vendors' SDKs."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest

from .hosted import HostedServer, hosting
from .process import wait_for

ALPHA, BETA, ADMIN = "key-of-alpha", "key-of-beta", "key-of-admin"
HELLO = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def server(endless_model: Path) -> Iterator[HostedServer]:
    keys = ("--api-key", ALPHA, "--api-key", BETA, "--admin-key", ADMIN)
    limits = {
        "MLXCTL_LIMITS_CONCURRENT": "1",
        "MLXCTL_LIMITS_REQUESTS_PER_MINUTE": "100",
        "MLXCTL_LIMITS_TOKENS_PER_MINUTE": "100000",
    }
    with hosting(endless_model, *keys, **limits) as running:
        yield running


def ask_openai(server: HostedServer, note: Callable[[Any], None]) -> str | None:
    with (
        httpx.Client(event_hooks={"response": [note]}) as http,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key=ALPHA, max_retries=2, http_client=http) as client,
    ):
        answer = client.chat.completions.create(model="tiny", messages=HELLO, max_tokens=1)  # type: ignore[arg-type]
        return answer.choices[0].finish_reason


def ask_anthropic(server: HostedServer, note: Callable[[Any], None]) -> str | None:
    with (
        httpx2.Client(event_hooks={"response": [note]}) as http,
        anthropic.Anthropic(base_url=server.url, api_key=ALPHA, max_retries=2, http_client=http) as client,
    ):
        answer = client.messages.create(model="tiny", messages=HELLO, max_tokens=1)  # type: ignore[arg-type]
        return answer.stop_reason


@pytest.mark.parametrize(
    ("ask", "reason", "header"),
    [
        (ask_openai, "length", "x-ratelimit-{0}-{1}"),
        (ask_anthropic, "max_tokens", "anthropic-ratelimit-{1}-{0}"),
    ],
)
def test_sdk_repeats_a_request_beyond_its_limit(
    server: HostedServer, ask: Callable[..., str | None], reason: str, header: str
) -> None:
    answers: list[Any] = []

    def note(response: Any) -> None:
        answers.append(response)
        if response.status_code == 429:
            call(server, "DELETE", "/requests/first", ADMIN)
            # Its place is free when the SDK repeats the request, a second later.
            first.result()

    with ThreadPoolExecutor() as pool:
        long = {"model": "tiny", "messages": HELLO, "max_tokens": 4000}
        first = pool.submit(call, server, "POST", "/v1/chat/completions", ALPHA, long, "first")
        wait_for(lambda: open_requests(server), seconds=20)
        assert call(server, "POST", "/v1/chat/completions", BETA, long | {"max_tokens": 1}).is_success

        assert ask(server, note) == reason

        assert first.result().status_code == 499
    refused, answered = answers
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert answered.status_code == 200
    for name, limit in (("requests", 100), ("tokens", 100_000)):
        assert int(answered.headers[header.format("limit", name)]) == limit
        assert 0 < int(answered.headers[header.format("remaining", name)]) < limit
    metrics = call(server, "GET", "/metrics", ADMIN).text
    assert re.search(
        r'^mlxctl_rate_limited_total{limit="concurrent_requests"} [12]\.0$', metrics, re.MULTILINE
    )


def open_requests(server: HostedServer) -> list[Any]:
    listed = call(server, "GET", "/requests", ADMIN).json()["requests"]
    return [request for request in listed if request["state"] == "answering"]


def call(
    server: HostedServer, method: str, path: str, key: str, body: Any = None, name: str = "other"
) -> httpx.Response:
    headers = {"x-api-key": key, "x-request-id": name}
    return httpx.request(method, server.url + path, headers=headers, json=body, timeout=60)
