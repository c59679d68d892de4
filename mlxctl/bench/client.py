"""A streaming HTTP client as light as can be: raw bytes on a socket, a timestamp for each event.

The same for every server.

It does not parse what it counts: parsing JSON would cost more than some servers do, and slow all of them
down. Tokens are counted by the server's own usage, where it tells one, and by events where not.
"""

import asyncio
import contextlib
import json
import re
import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from mlxctl.bench.endpoint import Endpoint
from mlxctl.errors import ConnectionLost, MlxctlError, SequenceFailed, ServerUnreachable
from mlxctl.inference.remote.errors import refusal

_CONNECT_SECONDS = 5.0
# A marker may be cut by the end of what was received; the last line with the usage must be found whole.
_TAIL_BYTES = 4096
_BUFFER_BYTES = 64 * 1024
_MARKER_BYTES = 32
_MAX_REFUSAL_BYTES = 64 * 1024
_DELTA = re.compile(rb'"(?:content|reasoning_content|reasoning|arguments)": ?"[^"]')
_FAILURE = re.compile(rb'data: ?(\{"error".*)')
_USAGE = re.compile(rb"data: ?(\{.*\})")


@dataclass(slots=True)
class Stream:
    """One answer as it came: when it was asked for, and when each of its pieces arrived, in seconds of the
    monotonic clock.

    The numbers of tokens, also of prompt tokens taken from a cache, are the server's own counts, None where
    it gave none.
    """

    sent: float = 0.0
    events: list[float] = field(default_factory=list)
    ended: float = 0.0
    num_tokens: int | None = None
    num_prompt_tokens: int | None = None
    num_cached_tokens: int | None = None

    @property
    def ttft(self) -> float:
        """Seconds to the first piece of the answer, of whatever kind; to its end when nothing in it was to be
        seen.
        """
        return (self.events[0] if self.events else self.ended) - self.sent

    @property
    def cached_share(self) -> float | None:
        """Share of the prompt that was taken from a cache; None where the server does not tell."""
        if self.num_cached_tokens is None or not self.num_prompt_tokens:
            return None
        return self.num_cached_tokens / self.num_prompt_tokens

    @property
    def seconds(self) -> float:
        """Seconds from the question to the end of the answer."""
        return self.ended - self.sent

    @property
    def arrivals(self) -> list[float]:
        """When something came; pieces that came together are one arrival, as a person sees them."""
        return list(dict.fromkeys(self.events))

    @property
    def gaps(self) -> list[float]:
        """Seconds between arrivals."""
        return [after - before for before, after in pairwise(self.arrivals)]

    @property
    def num_counted(self) -> int:
        """Tokens of the answer: the server's count, or that of the pieces."""
        return len(self.events) if self.num_tokens is None else self.num_tokens

    @property
    def tokens_per_second(self) -> float:
        """Rate of decoding, without the first token, which pays for the prompt; 0 for an answer too short to
        have one.
        """
        duration = self.events[-1] - self.events[0] if self.events else 0.0
        return (self.num_counted - 1) / duration if duration > 0 else 0.0


async def run_stream(
    endpoint: Endpoint,
    body: dict[str, Any],
    *,
    on_first: asyncio.Event | None = None,
    into: Stream | None = None,
) -> Stream:
    """Send the request and read the answer to its end, filling `into` on the way; leave by cancelling.

    Raises ServerUnreachable, what a refusal means, SequenceFailed for an error in mid-answer, ConnectionLost
    for an answer without an end.
    """
    stream = into or Stream()
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            transport, reading = await loop.create_connection(
                lambda: StreamReceiver(stream, on_first), endpoint.host, endpoint.port, ssl=endpoint.tls()
            )
    except (OSError, TimeoutError) as error:
        raise ServerUnreachable(
            endpoint.base_url, str(error) or f"no answer within {_CONNECT_SECONDS:g} s"
        ) from None
    try:
        message = endpoint.message(body)
        stream.sent = time.perf_counter()
        transport.write(message)
        await reading.done
    finally:
        transport.close()
    reading.check()
    return stream


class StreamReceiver(asyncio.BufferedProtocol):
    """Counts pieces in raw bytes; `check` says afterwards whether that was an answer.

    PERF: with a buffer of its own; a plain Protocol gets a new block of 256 KiB for every token.
    """

    def __init__(self, stream: Stream, on_first: asyncio.Event | None) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stream = stream
        self._on_first = on_first
        self._head = b""
        self._tail = b""
        self._num_counted_bytes = 0
        self._is_stream = False
        self._buffer = bytearray(_BUFFER_BYTES)

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        now = time.perf_counter()
        data = bytes(memoryview(self._buffer)[:nbytes])
        self._stream.ended = now
        if not self._is_stream:
            data = self._read_head(data)
            if not self._is_stream:
                return
        self._count(self._tail + data, now)
        if b"[DONE]" in self._tail[-_MARKER_BYTES:]:
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._finish()

    def check(self) -> None:
        """Raise what the server meant when it did not answer; read its usage when it did."""
        if not self._is_stream:
            raise self._error_response()
        if failure := _FAILURE.search(self._tail):
            raise SequenceFailed(
                f"the server gave up in mid-answer: {failure[1][:200].decode(errors='replace')}"
            )
        if b"[DONE]" not in self._tail:
            raise ConnectionLost("the connection ended in mid-answer")
        for line in _USAGE.findall(self._tail):
            self._read_usage(line)

    def _read_head(self, data: bytes) -> bytes:
        """Take the status and the headers away; returns what follows them."""
        self._head += data
        head, end, rest = self._head.partition(b"\r\n\r\n")
        if end and b" 200 " in head.partition(b"\r\n")[0]:
            self._is_stream = True
            return rest
        if len(self._head) > _MAX_REFUSAL_BYTES:
            self._finish()
        return b""

    def _count(self, whole: bytes, now: float) -> None:
        """Note the pieces that end in what is new, and keep the end of it: what was counted there is not
        counted again.
        """
        measure_client_cost = self._num_counted_bytes
        num = 0
        for match in _DELTA.finditer(whole, measure_client_cost):
            measure_client_cost = match.end()
            num += 1
        if num:
            self._stream.events += [now] * num
            if self._on_first is not None:
                self._on_first.set()
        dropped = max(0, len(whole) - _TAIL_BYTES)
        self._tail = whole[dropped:]
        self._num_counted_bytes = max(measure_client_cost, len(whole) - _MARKER_BYTES, dropped) - dropped

    def _read_usage(self, line: bytes) -> None:
        with contextlib.suppress(ValueError, AttributeError, TypeError):
            usage = json.loads(line).get("usage") or {}
            stream = self._stream
            stream.num_tokens = (
                int(usage["completion_tokens"]) if "completion_tokens" in usage else stream.num_tokens
            )
            stream.num_prompt_tokens = (
                int(usage["prompt_tokens"]) if "prompt_tokens" in usage else stream.num_prompt_tokens
            )
            details = usage.get("prompt_tokens_details") or {}
            stream.num_cached_tokens = (
                int(details["cached_tokens"]) if "cached_tokens" in details else stream.num_cached_tokens
            )

    def _error_response(self) -> MlxctlError:
        head, _, body = self._head.partition(b"\r\n\r\n")
        words = head.partition(b"\r\n")[0].split(b" ")
        if len(words) < 2 or not words[1].isdigit():
            return ConnectionLost("the server closed the connection without an answer")
        # A chunked refusal has its sizes around it; the object between them is what matters.
        return refusal(int(words[1]), body[body.find(b"{") : body.rfind(b"}") + 1])

    def _finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)
