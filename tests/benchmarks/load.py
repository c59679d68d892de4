"""Requests of these benchmarks, sent by the client of `mlxctl bench`."""

from typing import Any

from mlxctl.bench.client import Stream
from mlxctl.bench.client import run_stream as send
from mlxctl.bench.endpoint import ChatEndpoint


def chat_body(text: str, *, max_tokens: int, **fields: Any) -> dict[str, Any]:
    """Return a streaming chat request that both servers accept."""
    messages = [{"role": "user", "content": text}]
    return {
        "model": "default_model",
        "messages": messages,
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
    } | fields


async def run_stream(port: int, body: dict[str, Any]) -> Stream:
    """Send the request to a local server and read the whole answer."""
    return await send(ChatEndpoint.of(f"http://127.0.0.1:{port}"), body)
