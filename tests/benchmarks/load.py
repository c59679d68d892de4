"""The requests of these measurements, sent by the client of `mlxctl bench`: the same for every server."""

from typing import Any

from mlxctl.bench.client import Stream
from mlxctl.bench.client import run_stream as send
from mlxctl.bench.endpoint import ChatEndpoint


def chat_body(text: str, *, max_tokens: int, **fields: Any) -> dict[str, Any]:
    """A streaming chat request that both servers take."""
    messages = [{"role": "user", "content": text}]
    return {
        "model": "default_model",
        "messages": messages,
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
    } | fields


async def run_stream(port: int, body: dict[str, Any]) -> Stream:
    """Send the request to a server of this machine and read the answer to its end."""
    return await send(ChatEndpoint.of(f"http://127.0.0.1:{port}"), body)
