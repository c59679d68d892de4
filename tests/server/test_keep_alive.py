"""Pings and progress during prefill and queueing, in every protocol."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from .hosted import HostedServer, hosting

STREAMED: dict[str, Any] = {"model": "tiny", "stream": True}


def body(path: str, text: str, num_tokens: int) -> dict[str, Any]:
    """A streaming request of a route's protocol."""
    fields = {"messages": [{"role": "user", "content": text}], "max_tokens": num_tokens}
    if path == "/v1/completions":
        fields = {"prompt": text, "max_tokens": num_tokens}
    if path == "/v1/responses":
        fields = {"input": text, "max_output_tokens": num_tokens}
    return {**STREAMED, **fields}


PATHS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/agents/patient/generate",
)


@pytest.fixture(scope="module")
def slow(endless_model: Path) -> Iterator[HostedServer]:
    """A server with one batch slot and a short ping interval.

    Prefill chunks are small.
    """
    limits = {
        "MLXCTL_ENGINE_MAX_ROWS": "1",
        "MLXCTL_ENGINE_PREFILL_PASS_MAX_TOKENS": "16",
        "MLXCTL_ENGINE_PREFILL_TURN_SECONDS": "0.05",
        "MLXCTL_ENGINE_PREFIX_CACHE_BYTES": "0",
        "MLXCTL_SERVER_PING_INTERVAL_SECONDS": "0.02",
    }
    with hosting(endless_model, **limits) as running:
        httpx.post(f"{running.url}/v1/agents", json={"model": "tiny", "id": "patient"})
        yield running


@pytest.mark.parametrize("path", PATHS)
def test_stream_reports_prefill_progress(slow: HostedServer, path: str) -> None:
    answer = httpx.post(f"{slow.url}{path}", json=body(path, "very long " * 150, 2), timeout=60).text
    progress = [
        (int(done), int(total))
        for done, total in re.findall(r"^: prefill (\d+)/(\d+)$", answer, re.MULTILINE)
    ]
    assert len(progress) >= 3
    assert progress == sorted(progress)
    assert len({total for _, total in progress}) == 1
    assert 0 < progress[-1][0] < progress[-1][1]
    assert answer.rindex(": prefill") < answer.rindex("data: {")


@pytest.mark.parametrize("path", PATHS)
def test_queued_stream_gets_pings(slow: HostedServer, path: str) -> None:
    first = httpx.stream(
        "POST", f"{slow.url}/v1/chat/completions", json=body(PATHS[0], "Hi", 20_000), timeout=60
    )
    with first as running:
        running_lines = running.iter_lines()
        while "content" not in next(running_lines):
            pass
        with httpx.stream("POST", f"{slow.url}{path}", json=body(path, "Hi", 2), timeout=60) as waiting:
            lines = waiting.iter_lines()
            received = [line for line in (next(lines) for _ in range(24)) if line]
            assert received.count(": ping") >= 3
            running.close()
            rest = list(lines)
    assert any("[DONE]" in line or "message_stop" in line for line in rest)


def test_queued_agent_turn_gets_pings(slow: HostedServer) -> None:
    agent = f"{slow.url}/v1/agents/busy"
    httpx.post(f"{slow.url}/v1/agents", json={"model": "tiny", "id": "busy"})

    def turn(text: str, num_tokens: int) -> Any:
        return httpx.stream(
            "POST", f"{agent}/generate", json=body("/v1/agents/busy/generate", text, num_tokens), timeout=60
        )

    with turn("One", 20_000) as first:
        answer = first.iter_lines()
        next(answer)
        with turn("Left", 2) as second:
            left = second.iter_lines()
            assert next(left) == ": ping"
        with turn("Two", 2) as third:
            lines = third.iter_lines()
            received = [next(lines) for _ in range(6)]
            first.close()
            rest = [line for line in lines if line]
    assert received == [": ping", ""] * 3
    assert rest[-1] == "data: [DONE]"
    history = httpx.get(f"{agent}/messages", timeout=30).json()["data"]
    assert [entry["message"]["content"] for entry in history[::2]] == ["Two"]
