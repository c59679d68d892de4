"""Tools of one MCP server. Event-loop thread only.

Needs the extra `mcp`; imported when a server is configured.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import msgspec
from mcp import Client, MCPError
from mcp_types import CONNECTION_CLOSED, CallToolResult, Implementation
from mcp_types import Tool as ListedTool

from mlxctl import __version__
from mlxctl.chat.tools.child_output import ChildOutput
from mlxctl.chat.tools.mcp_config import McpServerConfig
from mlxctl.chat.tools.mcp_transport import Connection, open_http, start_process
from mlxctl.chat.tools.toolbox import MAX_NAME, Tool, error_result, text_result
from mlxctl.ir import ToolCallPart, ToolResultPart, ToolSpec

CONNECT_SECONDS = 30.0
CALL_SECONDS = 120.0
_CHECK_SECONDS = 2.0
MAX_RESULT_CHARACTERS = 100_000
_MAX_PAGES = 100
_MAX_LISTED = 10_000
_MAX_STDERR_BYTES = 4000
_MAX_QUOTED = 200

# Without a handler, Python prints the SDK's warnings and stack traces on the terminal.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


class McpServer:
    """One server: a child process, or a URL. Implements `ToolSource`.

    A separate task holds its connection. A server that ended, or that does not answer any more, is
    connected again with the next call.
    """

    def __init__(
        self,
        name: str,
        config: McpServerConfig,
        *,
        connect_seconds: float = CONNECT_SECONDS,
        call_seconds: float = CALL_SECONDS,
    ) -> None:
        self.name = f"MCP server {name!r}"
        self.tools: Sequence[Tool] = ()
        self.problem: str | None = None
        self._prefix = name
        self._config = config
        self._connect_seconds = connect_seconds
        self._call_seconds = call_seconds
        self._client: Client | None = None
        self._connection: Connection | None = None
        self._is_doubtful = False
        self._stderr: ChildOutput | None = None
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    async def open(self) -> None:
        """Connect and list the tools; a failure is the `problem`."""
        self._closing = asyncio.Event()
        opened: asyncio.Future[list[ListedTool]] = asyncio.get_running_loop().create_future()
        task = self._task = asyncio.create_task(self._serve(opened), name=self.name)
        try:
            async with asyncio.timeout(self._connect_seconds):
                listed = await opened
        except TimeoutError:
            await self.close()
            self.problem = f"{self.name} did not answer within {self._connect_seconds:g} s"
        except asyncio.CancelledError:
            # The user skipped the wait for this server.
            task.cancel()
            raise
        except _ConnectFailed as error:
            self.problem = f"{self.name} is not available: {error}"
        else:
            self.problem = None
            self.tools = [self._tool(tool) for tool in listed]

    async def close(self) -> None:
        """End the connection, and the process where it is one."""
        self._closing.set()
        if self._task is not None:
            task, self._task = self._task, None
            if self._client is None:
                # The task does not wait for `_closing` yet.
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _serve(self, opened: "asyncio.Future[list[ListedTool]]") -> None:
        """Hold the connection until `close`.

        The SDK's context managers must be entered and left in one task.
        """
        with ChildOutput(num_last=_MAX_STDERR_BYTES) as stderr:
            self._stderr = stderr
            try:
                async with self._connected(stderr) as client:
                    listed = await _list_tools(client)
                    self._client, self._is_doubtful = client, False
                    if not opened.done():
                        opened.set_result(listed)
                    await self._closing.wait()
            # The SDK raises errors of many libraries, and groups of them.
            except Exception as error:
                if not opened.done():
                    opened.set_exception(_ConnectFailed(stderr.last_line or self._reason(error)))
            finally:
                self._client = self._connection = self._stderr = None

    @asynccontextmanager
    async def _connected(self, stderr: ChildOutput) -> AsyncIterator[Client]:
        opened = (
            start_process(self._config, stderr.writer)
            if self._config.url is None
            else open_http(
                self._config, connect_seconds=self._connect_seconds, read_seconds=self._call_seconds
            )
        )
        info = Implementation(name="mlxctl", version=__version__)
        async with (
            opened as self._connection,
            Client(self._connection, client_info=info, read_timeout_seconds=self._call_seconds) as client,
        ):
            yield client

    def _tool(self, tool: ListedTool) -> Tool:
        # Models' templates and other servers accept such names only.
        name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{self._prefix}__{tool.name}")[:MAX_NAME]
        return Tool(
            spec=ToolSpec(name=name, description=tool.description or "", parameters=tool.input_schema),
            origin=self.name,
            needs_approval=True,
            run=partial(self._call, tool.name),
        )

    async def _call(self, name: str, call: ToolCallPart) -> ToolResultPart:
        try:
            arguments = msgspec.json.decode(call.arguments or "{}", type=dict[str, Any])
        except (msgspec.MsgspecError, ValueError):
            return error_result(call, "the arguments are not a JSON object")
        if self._is_doubtful and not await self._answers():
            await self.close()
        if self._client is None:
            await self.close()
            await self.open()
        client, connection = self._client, self._connection
        if client is None or connection is None:
            return error_result(call, self.problem or f"{self.name} is not available")
        connection.problem = None
        # Until the result is here: the user may stop a call that hangs.
        self._is_doubtful = True
        try:
            async with asyncio.timeout(self._call_seconds):
                result = await client.call_tool(name, arguments)
        except TimeoutError:
            return error_result(call, f"{self.name} did not answer within {self._call_seconds:g} s")
        except MCPError as error:
            # Servers also use the code of a closed connection for their own errors.
            if error.code == CONNECTION_CLOSED and not await self._answers():
                reason = self._lost_reason(connection)
                await self.close()
                return error_result(call, reason)
            self._is_doubtful = False
            is_ours = connection.problem is not None or "validation error" in error.message
            return error_result(call, self._reason(error) if is_ours else _shortened(error.message))
        # As in `_serve`: errors of many libraries.
        except Exception as error:
            return error_result(call, f"{self.name}: {self._reason(error)}")
        self._is_doubtful = False
        return text_result(call, _text(result), is_error=result.is_error)

    async def _answers(self) -> bool:
        """Return whether the server lists its tools at once."""
        if self._client is None:
            return False
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                await self._client.list_tools()
        # As in `_serve`: errors of many libraries.
        except Exception:
            return False
        self._is_doubtful = False
        return True

    def _lost_reason(self, connection: Connection) -> str:
        if connection.problem is not None:
            return f"{self.name} is stopped: {connection.problem}; the next call starts it again"
        if self._config.url is not None:
            return f"{self.name} closed the connection; the next call connects again"
        last_line = self._stderr.last_line if self._stderr is not None else ""
        words = f", after printing {last_line[:_MAX_QUOTED]!r}" if last_line else ""
        return f"{self.name} has ended{words}; the next call starts it again"

    def _reason(self, error: BaseException) -> str:
        """Return the first line of an error, or of a group's first."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if self._connection is not None and self._connection.problem is not None:
            return self._connection.problem
        if isinstance(error, FileNotFoundError):
            return f"there is no command {error.filename!r}"
        if isinstance(error, OSError) and error.filename and error.strerror:
            return f"{error.filename!r} cannot be started: {error.strerror.lower()}"
        text = error.message if isinstance(error, MCPError) else str(error)
        if "validation error" in text:
            return "it does not answer in the form of MCP"
        reason = (text.strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        return reason if self._config.url is None else f"{reason} ({_host(self._config.url)})"


class _ConnectFailed(Exception):
    """The connection or the list of tools failed."""


async def _list_tools(client: Client) -> list[ListedTool]:
    """Return the server's tools of all pages, within bounds.

    More than a model is offered, so that the user learns how many are left out.
    """
    found: list[ListedTool] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if cursor is None or len(found) > _MAX_LISTED:
            break
    return found[:_MAX_LISTED]


def _text(result: CallToolResult) -> str:
    """Return the result as text; other kinds of content are named."""
    parts = []
    for block in result.content:
        match block.type:
            case "text":
                parts.append(block.text)
            case "image" | "audio":
                parts.append(f"[{block.type}, {block.mime_type}, not shown]")
            case "resource_link":
                parts.append(f"[resource {block.uri}]")
            case "resource":
                parts.append(getattr(block.resource, "text", f"[resource {block.resource.uri}, not shown]"))
    if not parts and result.structured_content is not None:
        parts.append(msgspec.json.encode(result.structured_content).decode())
    text = "\n".join(parts)
    return _shortened(text)


def _host(url: str) -> str:
    """Return host and port; the rest of a URL may hold keys."""
    return urlsplit(url).netloc.rpartition("@")[2]


def _shortened(text: str) -> str:
    if len(text) <= MAX_RESULT_CHARACTERS:
        return text
    return f"{text[:MAX_RESULT_CHARACTERS]}\n[cut: {len(text):,} characters in all]"
