"""Limits and cost of large bodies."""

import asyncio
import json
import pickle
import socket
import struct
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from falcon.asgi import Request

from mlxctl.inference.preparation.frames import ConnectionEnded, receive_async
from mlxctl.ir.errors import QueueFull
from mlxctl.server.http.body import read_body
from mlxctl.server.http.upload_turns import UploadTurns
from mlxctl.server.middleware.body_memory import BodyAccount, BodyMemory

from .hosted import HostedServer, hosting
from .process import wait_for

_MIB = 1 << 20
_TURNS = UploadTurns(64 * _MIB, max_wait_seconds=60)
_ACCOUNT = BodyAccount(BodyMemory(64 * _MIB), _TURNS, "")
_SMALL = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def server(endless_model: Path) -> Iterator[HostedServer]:
    """A server with room for the body of one large request."""
    with hosting(endless_model, MLXCTL_SERVER_MAX_BODIES_BYTES=str(36 * _MIB)) as running:
        yield running


def refused(server: HostedServer, path: str, asked: dict[str, Any]) -> dict[str, Any]:
    answer = httpx.post(
        f"{server.url}{path}",
        json=asked if path == "/cache/explain" else {"model": "tiny", **asked},
        timeout=60,
    )
    assert answer.status_code == 400
    error: dict[str, Any] = answer.json()["error"]
    return error


def test_explanation_of_an_oversized_prompt_is_refused(server: HostedServer) -> None:
    words = "an old hill " * 200_000
    question = {"body": {"model": "tiny", "messages": [{"role": "user", "content": words}]}}
    explained = refused(server, "/cache/explain", question)

    assert explained["code"] == "context_length_exceeded"
    # The number is the least that the length allows: nothing was tokenized.
    assert explained == refused(server, "/v1/chat/completions", question["body"])


def test_explanation_of_a_long_prompt_fails_like_its_request(
    server: HostedServer,
) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "an old hill " * 10_000}]}
    explained = refused(server, "/cache/explain", {"body": body})

    assert explained["code"] == "context_length_exceeded"
    assert explained == refused(server, "/v1/chat/completions", body)


def test_error_quotes_only_the_start_of_long_values(server: HostedServer) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    choice = {"type": "function", "function": {"name": "f" * 100_000}}
    error = refused(
        server, "/v1/chat/completions", {"messages": _SMALL, "tools": tools, "tool_choice": choice}
    )

    assert "tool_choice" in error["message"]
    assert len(error["message"]) < 5000


@pytest.mark.parametrize("body", [{"k" * 50_000: 1}, {"model": "m" * 50_000}])
@pytest.mark.parametrize("path", ["/v1/agents", "/models/load", "/v1/load_lora_adapter"])
def test_error_quotes_no_long_name_whole(server: HostedServer, path: str, body: dict[str, Any]) -> None:
    answer = httpx.post(f"{server.url}{path}", json=body)
    assert answer.status_code in (400, 404)
    assert len(answer.content) < 20_000


def test_schema_size_is_bounded(server: HostedServer) -> None:
    schema = {"type": "object", "description": "x" * 5 * _MIB}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    error = refused(
        server, "/v1/chat/completions", {"messages": _SMALL, "tools": tools, "tool_choice": "none"}
    )

    assert error["param"] == "tools"
    assert "4194304 bytes" in error["message"]


@pytest.mark.parametrize("field", ["instructions", "user"])
def test_repeated_response_fields_are_bounded(server: HostedServer, field: str) -> None:
    error = refused(server, "/v1/responses", {"input": "hello", field: "x" * 5 * _MIB})

    assert "what a response repeats" in error["message"]


def test_body_is_not_copied() -> None:
    async def run() -> None:
        tracemalloc.start()
        try:
            body = await read_body(cast("Request", sent(num_chunks=16)), limit_bytes=32 * _MIB)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert len(body) == 16 * _MIB
        assert peak < 24 * _MIB

    asyncio.run(run())


def test_caller_reads_bodies_up_to_its_share_of_a_full_memory() -> None:
    async def run() -> None:
        memory = BodyMemory(8 * _MIB)
        many = [BodyAccount(memory, _TURNS, "many") for _ in range(8)]
        for account in many:
            await read_body(cast("Request", sent(num_chunks=1, account=account)), limit_bytes=32 * _MIB)
        other, late = BodyAccount(memory, _TURNS, "other"), BodyAccount(memory, _TURNS, "many")

        await read_body(cast("Request", sent(num_chunks=4, account=other)), limit_bytes=32 * _MIB)
        for refused_account in (late, other):
            with pytest.raises(QueueFull, match=r"share of a caller is 4\.19 MB"):
                await read_body(
                    cast("Request", sent(num_chunks=1, account=refused_account)), limit_bytes=32 * _MIB
                )

        assert memory.num_bytes == 12 * _MIB
        for account in (*many, other, late):
            account.close()
        assert memory.num_bytes == 0

    asyncio.run(run())


def test_full_memory_of_bodies_answers_429_until_others_end(server: HostedServer) -> None:
    asked = {"model": "tiny", "max_tokens": 1, "messages": _SMALL}

    def content(num_mib: int, **more: Any) -> bytes:
        return json.dumps({**asked, **more}).encode().ljust(num_mib * _MIB)

    def statuses(num_mib: int) -> list[int]:
        paths = ("/v1/chat/completions", "/v1/messages")
        return [
            httpx.post(f"{server.url}{path}", content=content(num_mib), timeout=60).status_code
            for path in paths
        ]

    running = content(31, stream=True, max_tokens=20_000)
    with httpx.stream("POST", f"{server.url}/v1/chat/completions", content=running) as stream:
        answer = stream.iter_raw()
        next(answer)
        assert statuses(20) == [429, 429]
        # Without keys, each connection has a share of its own.
        assert statuses(5) == [200, 200]
    wait_for(lambda: statuses(20) == [200, 200], seconds=20)


def sent(*, num_chunks: int, account: BodyAccount = _ACCOUNT) -> SimpleNamespace:
    """A request whose chunks of one MiB arrive one after another."""

    async def stream() -> AsyncIterator[bytes]:
        for _ in range(num_chunks):
            yield bytes(_MIB)

    return SimpleNamespace(
        get_header=lambda _: None,
        content_length=None,
        stream=stream(),
        context=SimpleNamespace(body_account=account),
    )


def test_preparation_result_is_received_in_chunks() -> None:
    async def run() -> None:
        front, worker = socket.socketpair()
        front.setblocking(False)
        announced = struct.pack("<IQQ", 2, 10, 64 * _MIB)
        worker.sendall(announced + pickle.dumps(None).ljust(10) + bytes(1000))
        worker.close()
        tracemalloc.start()
        try:
            with front, pytest.raises(ConnectionEnded):
                await receive_async(front)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 2 * _MIB

    asyncio.run(run())
