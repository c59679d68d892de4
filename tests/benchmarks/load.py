"""A streaming HTTP client as light as can be: raw bytes on a socket, a timestamp for each event. The same for every server."""

import asyncio
import json
import re
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
    stream = into or Stream(sent=0.0)
    payload = json.dumps(body).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(payload)}\r\nConnection: close\r\n\r\n"
    )
    loop = asyncio.get_running_loop()
    transport, reading = await loop.create_connection(lambda: _Reading(stream, on_first), "127.0.0.1", port)
    try:
        stream.sent = time.perf_counter()
        transport.write(head.encode() + payload)
        await reading.done
    finally:
        transport.close()
    return stream


class _Reading(asyncio.Protocol):
    """Counts tokens in raw bytes: parsing JSON would cost more than some servers do, and slow all of them down."""

    _TOKEN = re.compile(rb'"(?:content|reasoning_content|reasoning)": ?"(?!")')
    _TAIL_BYTES = 64

    def __init__(self, stream: Stream, on_first: asyncio.Event | None) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stream = stream
        self._on_first = on_first
        self._tail = b""

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        if not self._stream.events and not self._tail:
            assert b" 200 " in data[:16], data
        data = self._tail + data
        end = 0
        for match in self._TOKEN.finditer(data):
            self._stream.events.append(now)
            end = match.end()
        if end and self._on_first is not None:
            self._on_first.set()
        # A marker may be cut by the end of what was received; one that was counted is not seen again.
        self._tail = data[max(end, len(data) - self._TAIL_BYTES) :]
        if b"[DONE]" in self._tail:
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish()

    def _finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def run_many(port: int, num: int, *, max_tokens: int) -> float:
    """Run `num` streams at once and return all tokens per second while all of them decode."""
    bodies = [chat_body(f"stream number {index}", max_tokens=max_tokens) for index in range(num)]
    streams = await asyncio.gather(*(run_stream(port, body) for body in bodies))
    begin = max(stream.events[0] for stream in streams)
    end = min(stream.events[-1] for stream in streams)
    return sum(sum(begin < event <= end for event in stream.events) for stream in streams) / (end - begin)
