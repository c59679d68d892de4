"""Minimal streaming HTTP client: raw bytes with a timestamp per event.

It does not parse the JSON of events, which would cost more than some servers do and slow all of them down.
Tokens are counted by the server's `usage` where it sends one, else by events.
"""

import asyncio
import contextlib
import re
import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any

import msgspec

from mlxctl.bench.endpoint import ChatEndpoint
from mlxctl.inference.remote.errors import error_of_response
from mlxctl.inference.remote.server_answers import UNREADABLE
from mlxctl.ir.errors import ConnectionLost, MlxctlError, SequenceFailed, ServerUnreachable

_CONNECT_SECONDS = 5.0
# A marker may be split between two reads; the tail must hold the complete line with the usage.
_TAIL_BYTES = 4096
_BUFFER_BYTES = 64 * 1024
_MARKER_BYTES = 32
_MAX_ERROR_BYTES = 64 * 1024
_DELTA = re.compile(rb'"(?:content|reasoning_content|reasoning|arguments)": ?"[^"]')
_FAILURE = re.compile(rb'data: ?(\{"error".*)')
_STATUS = re.compile(rb"[1-9][0-9]{2}")
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_USAGE = re.compile(rb"data: ?(\{.*\})")


class _PromptDetails(msgspec.Struct):
    cached_tokens: _Count | None = None


class _CompletionDetails(msgspec.Struct):
    accepted_prediction_tokens: _Count | None = None
    rejected_prediction_tokens: _Count | None = None


class _StreamUsage(msgspec.Struct):
    completion_tokens: _Count | None = None
    prompt_tokens: _Count | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None


class _Event(msgspec.Struct):
    usage: _StreamUsage | None = None


@dataclass(slots=True)
class Stream:
    """One answer: times of the connection and of each delta.

    In monotonic seconds. Token counts come from the server's `usage`; None where it sends none.
    """

    sent: float = 0.0
    events: list[float] = field(default_factory=list)
    ended: float = 0.0
    num_tokens: int | None = None
    num_prompt_tokens: int | None = None
    num_cached_tokens: int | None = None
    num_accepted_draft_tokens: int | None = None
    num_rejected_draft_tokens: int | None = None

    @property
    def ttft(self) -> float:
        """Seconds from connecting to the first delta, else to the end."""
        return (self.events[0] if self.events else self.ended) - self.sent

    @property
    def cached_share(self) -> float | None:
        """Share of the prompt that came from a cache; None if unknown."""
        if self.num_cached_tokens is None or not self.num_prompt_tokens:
            return None
        return self.num_cached_tokens / self.num_prompt_tokens

    @property
    def seconds(self) -> float:
        """Seconds from the request to the end of the answer."""
        return self.ended - self.sent

    @property
    def arrivals(self) -> list[float]:
        """Distinct arrival times; deltas that arrive together count once."""
        return list(dict.fromkeys(self.events))

    @property
    def gaps(self) -> list[float]:
        """Seconds between arrivals of successive tokens."""
        return [after - before for before, after in pairwise(self.arrivals)]

    @property
    def num_counted(self) -> int:
        """Answer tokens by the server's count, else by deltas."""
        return len(self.events) if self.num_tokens is None else self.num_tokens

    @property
    def tokens_per_second(self) -> float:
        """Decode rate without the first token; 0 for too short answers."""
        duration = self.events[-1] - self.events[0] if self.events else 0.0
        return (self.num_counted - 1) / duration if duration > 0 else 0.0


async def run_stream(
    endpoint: ChatEndpoint,
    body: dict[str, Any],
    *,
    on_first: asyncio.Event | None = None,
    into: Stream | None = None,
) -> Stream:
    """Send the request and read the answer, filling `into` meanwhile.

    Cancel to leave early. Raises ServerUnreachable, the exception of an error response, SequenceFailed for an
    error during the stream, and ConnectionLost for an incomplete stream.
    """
    stream = into or Stream()
    loop = asyncio.get_running_loop()
    # As a client without an open connection sees it: a server that accepts slowly answers late.
    stream.sent = time.perf_counter()
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
        transport.write(endpoint.message(body))
        await reading.done
    finally:
        transport.close()
    reading.check()
    return stream


class StreamReceiver(asyncio.BufferedProtocol):
    """Counts deltas in raw bytes; `check` validates the response afterwards.

    PERF: it has its own buffer; a plain Protocol allocates 256 KiB for every token.
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
        """Raise the error of a failed response, or read `usage`."""
        if not self._is_stream:
            raise self._error_response()
        if failure := _FAILURE.search(self._tail):
            raise SequenceFailed(
                f"the server failed during the answer: {failure[1][:200].decode(errors='replace')}"
            )
        if b"[DONE]" not in self._tail:
            raise ConnectionLost("the connection ended during the answer")
        for line in _USAGE.findall(self._tail):
            self._read_usage(line)

    def _read_head(self, data: bytes) -> bytes:
        """Consume status and headers; return the bytes after them."""
        self._head += data
        head, end, rest = self._head.partition(b"\r\n\r\n")
        if end and b" 200 " in head.partition(b"\r\n")[0]:
            self._is_stream = True
            return rest
        if len(self._head) > _MAX_ERROR_BYTES:
            self._finish()
        return b""

    def _count(self, whole: bytes, now: float) -> None:
        """Record the new deltas and keep the tail, without counting any twice."""
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
        with contextlib.suppress(*UNREADABLE):
            usage = msgspec.json.decode(line, type=_Event).usage
            if usage is None:
                return
            stream, details = self._stream, usage.prompt_tokens_details
            if usage.completion_tokens is not None:
                stream.num_tokens = usage.completion_tokens
            if usage.prompt_tokens is not None:
                stream.num_prompt_tokens = usage.prompt_tokens
            if details is not None and details.cached_tokens is not None:
                stream.num_cached_tokens = details.cached_tokens
            if (drafts := usage.completion_tokens_details) is not None:
                stream.num_accepted_draft_tokens = drafts.accepted_prediction_tokens
                stream.num_rejected_draft_tokens = drafts.rejected_prediction_tokens

    def _error_response(self) -> MlxctlError:
        head, _, body = self._head.partition(b"\r\n\r\n")
        words = head.partition(b"\r\n")[0].split(b" ")
        if len(words) < 2 or not _STATUS.fullmatch(words[1]):
            return ConnectionLost("the server closed the connection without an answer")
        # A chunked error response has chunk sizes around the JSON object.
        return error_of_response(int(words[1]), body[body.find(b"{") : body.rfind(b"}") + 1])

    def _finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)
