"""Connections to MCP servers with bounded messages: a child process, or HTTP.

Event-loop thread only. The connections of the SDK keep messages of any length in memory.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from mlxctl.chat.tools.mcp_config import McpServerConfig

MAX_MESSAGE_BYTES = 16_000_000
_CHUNK_BYTES = 65_536
_TOO_LONG = f"it sent a message of more than {MAX_MESSAGE_BYTES // 1_000_000} MB"
# How long a process may take to end after its input is closed, and again after SIGTERM.
_END_SECONDS = 1.0


class Connection:
    """Streams of messages to and from one server.

    `problem` is why the server's messages cannot be read, if that is known.
    """

    def __init__(self, streams: Any) -> None:
        self.streams = streams
        self.problem: str | None = None

    async def __aenter__(self) -> Any:
        return self.streams

    async def __aexit__(self, *_: object) -> None:
        """Close nothing: the opener of the connection closes it."""


@asynccontextmanager
async def start_process(config: McpServerConfig, errors: TextIO) -> AsyncIterator[Connection]:
    """Start the server's command; one JSON message is a line. Raises OSError.

    Lines that are no message are skipped. At the end the process and its children are ended.
    """
    assert config.command is not None, "checked with the configuration"
    if config.cwd is not None and not await asyncio.to_thread(Path(config.cwd).is_dir):
        raise NotADirectoryError(f"there is no directory {config.cwd!r}")
    process = await asyncio.create_subprocess_exec(
        config.command,
        *config.args,
        env=get_default_environment() | dict(config.env),
        cwd=config.cwd,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=errors,
        # A separate process group: Ctrl-C does not reach it, and its children can be killed with it.
        start_new_session=True,
        limit=MAX_MESSAGE_BYTES,
    )
    received, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, sent = anyio.create_memory_object_stream[SessionMessage](0)
    connection = Connection((incoming, outgoing))

    tasks = [
        asyncio.create_task(_read_messages(process, received, connection)),
        asyncio.create_task(_write_messages(process, sent)),
    ]
    try:
        yield connection
    finally:
        await _end(process)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for stream in (incoming, outgoing):
            stream.close()


async def _read_messages(
    process: asyncio.subprocess.Process,
    received: MemoryObjectSendStream[SessionMessage | Exception],
    connection: Connection,
) -> None:
    """Receive messages of the process until it or the session ends."""
    assert process.stdout is not None, "the process was started with a pipe"
    async with received:
        try:
            while True:
                line = await process.stdout.readuntil(b"\n")
                with suppress(ValueError):
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    await received.send(SessionMessage(message))
        except asyncio.LimitOverrunError:
            connection.problem = _TOO_LONG
        except (asyncio.IncompleteReadError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            # The server's output, or the session, has ended.
            pass
    # A server that waits for a reader of its output could not end.
    while await process.stdout.read(_CHUNK_BYTES):
        pass


async def _write_messages(
    process: asyncio.subprocess.Process, sent: MemoryObjectReceiveStream[SessionMessage]
) -> None:
    """Write messages to the process until it or the session ends."""
    assert process.stdin is not None, "the process was started with a pipe"
    async with sent:
        with suppress(ConnectionError):
            async for message in sent:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(f"{text}\n".encode())
                await process.stdin.drain()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Close the input of a process, then end its group.

    A cancellation kills it at once.
    """
    assert process.stdin is not None, "it is a pipe"
    process.stdin.close()
    ended = asyncio.ensure_future(process.wait())
    try:
        await asyncio.wait({ended}, timeout=_END_SECONDS)
        # Children may outlive the process.
        _signal_group(process, signal.SIGTERM)
        await asyncio.wait({ended}, timeout=_END_SECONDS)
    finally:
        _signal_group(process, signal.SIGKILL)
        await asyncio.wait({ended}, timeout=_END_SECONDS)
        ended.cancel()
        await asyncio.gather(ended, return_exceptions=True)


def _signal_group(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


@asynccontextmanager
async def open_http(
    config: McpServerConfig, *, connect_seconds: float, read_seconds: float
) -> AsyncIterator[Connection]:
    """Connect to the server's URL by streamable HTTP."""
    assert config.url is not None, "the other kind is a process"
    async with AsyncExitStack() as stack:
        transport = _BoundedTransport()
        client = await stack.enter_async_context(
            httpx2.AsyncClient(
                # A compressed body could grow beyond the bound.
                headers={"Accept-Encoding": "identity", **config.headers},
                timeout=httpx2.Timeout(connect_seconds, read=read_seconds),
                transport=transport,
            )
        )
        streams = await stack.enter_async_context(streamable_http_client(config.url, http_client=client))
        transport.connection = connection = Connection(streams)
        yield connection


class _BoundedTransport(httpx2.AsyncHTTPTransport):
    """Bounds JSON bodies, and notes the status of failed requests.

    The SDK bounds the events of streams itself.
    """

    connection: Connection | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if response.headers.get("content-type", "").lower().startswith("application/json"):
            response.stream = _BoundedBody(response.stream, self.connection)
        # A server without a stream of notifications, or without sessions, answers 405.
        if self.connection is not None and response.status_code >= 400 and request.method == "POST":
            hint = "; check its `headers`" if response.status_code in (401, 403) else ""
            self.connection.problem = f"it answered with HTTP status {response.status_code}{hint}"
        return response


class _BoundedBody(httpx2.AsyncByteStream):
    def __init__(self, body: Any, connection: Connection | None) -> None:
        self._body = body
        self._connection = connection

    async def __aiter__(self) -> AsyncIterator[bytes]:
        num_bytes = 0
        async for chunk in self._body:
            num_bytes += len(chunk)
            if num_bytes > MAX_MESSAGE_BYTES:
                if self._connection is not None:
                    self._connection.problem = _TOO_LONG
                raise httpx2.StreamError(_TOO_LONG)
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()
