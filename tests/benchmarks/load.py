"""A streaming HTTP client as light as can be: raw bytes on a socket, a timestamp for each event. The same for every server."""

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Stream:
    """When a request was sent, and when each of its content events came, in seconds of the monotonic clock."""

    sent: float
    events: list[float] = field(default_factory=list)

    @property
    def first_event_seconds(self) -> float:
        """Time to the first token."""
        return self.events[0] - self.sent

    @property
    def gaps(self) -> list[float]:
        """Times between events."""
        return [after - before for before, after in zip(self.events, self.events[1:], strict=False)]

    @property
    def tokens_per_second(self) -> float:
        """Rate of decoding: without the first token, which pays for the prompt."""
        return (len(self.events) - 1) / (self.events[-1] - self.events[0])


def chat_body(text: str, *, max_tokens: int, **fields: Any) -> dict[str, Any]:
    """A streaming chat request that both servers take."""
    messages = [{"role": "user", "content": text}]
    return {"model": "default_model", "messages": messages, "max_tokens": max_tokens, "temperature": 0, "stream": True} | fields


async def run_stream(
    port: int, body: dict[str, Any], *, on_first: asyncio.Event | None = None, into: Stream | None = None
) -> Stream:
    """Send the request and read it to its end, filling `into` on the way; leave by cancelling."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    payload = json.dumps(body).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(payload)}\r\nConnection: close\r\n\r\n"
    )
    stream = into or Stream(sent=0.0)
    stream.sent = time.perf_counter()
    try:
        writer.write(head.encode() + payload)
        status = await reader.readline()
        assert b" 200 " in status, status
        await _read_events(reader, stream, on_first)
    finally:
        writer.close()
    return stream


async def _read_events(reader: asyncio.StreamReader, stream: Stream, on_first: asyncio.Event | None) -> None:
    while line := await reader.readline():
        if line.startswith(b"data: [DONE]"):
            return
        if not line.startswith(b"data: {"):
            continue
        choices = json.loads(line[6:])["choices"]
        delta = choices[0].get("delta", {}) if choices else {}
        if delta.get("content") or delta.get("reasoning_content") or delta.get("reasoning"):
            stream.events.append(time.perf_counter())
            if on_first is not None:
                on_first.set()


async def run_many(port: int, num: int, *, max_tokens: int) -> float:
    """Run `num` streams at once and return all tokens per second while all of them decode."""
    bodies = [chat_body(f"stream number {index}", max_tokens=max_tokens) for index in range(num)]
    streams = await asyncio.gather(*(run_stream(port, body) for body in bodies))
    begin = max(stream.events[0] for stream in streams)
    end = min(stream.events[-1] for stream in streams)
    return sum(sum(begin < event <= end for event in stream.events) for stream in streams) / (end - begin)
