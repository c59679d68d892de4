"""The requests of these measurements, sent by the client of `mlxctl bench`: the same for every server."""

import asyncio
from typing import Any

from mlxctl.bench.client import Stream
from mlxctl.bench.client import run_stream as send
from mlxctl.bench.endpoint import ChatEndpoint
from mlxctl.bench.scenarios.throughput import decode_rate


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


async def run_many(port: int, num: int, *, max_tokens: int) -> float:
    """Run `num` streams at once and return all tokens per second while all of them decode."""
    bodies = [chat_body(f"stream number {index}", max_tokens=max_tokens) for index in range(num)]
    rate = decode_rate(await asyncio.gather(*(run_stream(port, body) for body in bodies)))
    assert rate is not None, "the answers are too short to run at the same time"
    return rate
