"""Limits and cost of large bodies."""

import asyncio
import pickle
import socket
import struct
import tracemalloc
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from falcon.asgi import Request

from mlxctl.inference.preparation.frames import ConnectionEnded, receive_async
from mlxctl.server.body import read_body

from .process import ServerProcess

_MIB = 1 << 20
_SMALL = [{"role": "user", "content": "hello"}]


def refused(server: ServerProcess, path: str, asked: dict[str, Any]) -> dict[str, Any]:
    answer = httpx.post(
        f"{server.url}{path}",
        json=asked if path == "/cache/explain" else {"model": "tiny", **asked},
        timeout=60,
    )
    assert answer.status_code == 400
    error: dict[str, Any] = answer.json()["error"]
    return error


def test_explanation_of_an_oversized_prompt_is_refused(server: ServerProcess) -> None:
    words = "an old hill " * 200_000
    question = {"body": {"model": "tiny", "messages": [{"role": "user", "content": words}]}}
    explained = refused(server, "/cache/explain", question)

    assert explained["code"] == "context_length_exceeded"
    # The number is the least that the length allows: nothing was tokenized.
    assert explained == refused(server, "/v1/chat/completions", question["body"])


def test_explanation_of_a_long_prompt_fails_like_its_request(
    server: ServerProcess,
) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "an old hill " * 10_000}]}
    explained = refused(server, "/cache/explain", {"body": body})

    assert explained["code"] == "context_length_exceeded"
    assert explained == refused(server, "/v1/chat/completions", body)


def test_error_quotes_only_the_start_of_long_values(server: ServerProcess) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    choice = {"type": "function", "function": {"name": "f" * 100_000}}
    error = refused(
        server, "/v1/chat/completions", {"messages": _SMALL, "tools": tools, "tool_choice": choice}
    )

    assert "tool_choice" in error["message"]
    assert len(error["message"]) < 5000


def test_schema_size_is_bounded(server: ServerProcess) -> None:
    schema = {"type": "object", "description": "x" * 5 * _MIB}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    error = refused(
        server, "/v1/chat/completions", {"messages": _SMALL, "tools": tools, "tool_choice": "none"}
    )

    assert error["param"] == "tools"
    assert "4194304 bytes" in error["message"]


@pytest.mark.parametrize("field", ["instructions", "user"])
def test_repeated_response_fields_are_bounded(server: ServerProcess, field: str) -> None:
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


def sent(*, num_chunks: int) -> SimpleNamespace:
    """A request whose chunks of one MiB arrive one after another."""

    async def stream() -> AsyncIterator[bytes]:
        for _ in range(num_chunks):
            yield bytes(_MIB)

    return SimpleNamespace(get_header=lambda _: None, content_length=None, stream=stream())


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
