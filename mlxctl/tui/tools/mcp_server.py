"""Tools of one MCP server. Event-loop thread only.

Needs the extra `mcp`; imported when a server is configured.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import httpx2
import msgspec
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CONNECTION_CLOSED, CallToolResult, Implementation
from mcp_types import Tool as ListedTool

from mlxctl import __version__
from mlxctl.ir import ToolCallPart, ToolResultPart, ToolSpec
from mlxctl.tui.tools.child_output import ChildOutput
from mlxctl.tui.tools.mcp_config import McpServerConfig
from mlxctl.tui.tools.toolbox import MAX_TOOLS, Tool, error_result, text_result

CONNECT_SECONDS = 30.0
CALL_SECONDS = 120.0
MAX_RESULT_CHARACTERS = 100_000
_MAX_PAGES = 20
_MAX_NAME = 64
_MAX_STDERR_BYTES = 4000


class McpServer:
    """One server: a child process, or a URL. Implements `ToolSource`.

    Its connection lives in a task of its own. A server that ended is connected again with the next call.
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
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    async def open(self) -> None:
        """Connect and list the tools; a failure is the `problem`."""
        self._closing = asyncio.Event()
        opened: asyncio.Future[list[ListedTool]] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._serve(opened), name=self.name)
        try:
            async with asyncio.timeout(self._connect_seconds):
                listed = await opened
        except TimeoutError:
            await self.close()
            self.problem = f"{self.name} did not answer within {self._connect_seconds:g} s"
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
            _, unfinished = await asyncio.wait({task}, timeout=1.0 if self._client is None else None)
            for hanging in unfinished:
                hanging.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _serve(self, opened: "asyncio.Future[list[ListedTool]]") -> None:
        """Hold the connection until `close`.

        The SDK's context managers must be entered and left in one task.
        """
        with ChildOutput(num_last=_MAX_STDERR_BYTES) as stderr:
            try:
                async with self._connected(stderr) as client:
                    listed = await _list_tools(client)
                    self._client = client
                    if not opened.done():
                        opened.set_result(listed)
                    await self._closing.wait()
            # The SDK raises errors of many libraries, and groups of them.
            except Exception as error:
                if not opened.done():
                    reason = stderr.last_line or _reason(error)
                    opened.set_exception(_ConnectFailed(reason))
            finally:
                self._client = None

    @asynccontextmanager
    async def _connected(self, stderr: ChildOutput) -> AsyncIterator[Client]:
        config = self._config
        async with AsyncExitStack() as stack:
            if config.url is not None:
                http = await stack.enter_async_context(
                    httpx2.AsyncClient(
                        headers=dict(config.headers),
                        timeout=httpx2.Timeout(self._connect_seconds, read=self._call_seconds),
                    )
                )
                transport: Any = streamable_http_client(config.url, http_client=http)
            else:
                command = StdioServerParameters(
                    command=config.command or "",
                    args=list(config.args),
                    env=dict(config.env),
                    cwd=config.cwd,
                    encoding_error_handler="replace",
                )
                transport = stdio_client(command, errlog=stderr.writer)
            info = Implementation(name="mlxctl", version=__version__)
            yield await stack.enter_async_context(
                Client(transport, client_info=info, read_timeout_seconds=self._call_seconds)
            )

    def _tool(self, tool: ListedTool) -> Tool:
        # Models' templates and other servers accept such names only.
        name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{self._prefix}__{tool.name}")[:_MAX_NAME]
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
        if self._client is None:
            await self.close()
            await self.open()
        client = self._client
        if client is None:
            return error_result(call, self.problem or f"{self.name} is not available")
        try:
            async with asyncio.timeout(self._call_seconds):
                result = await client.call_tool(name, arguments)
        except TimeoutError:
            return error_result(call, f"{self.name} did not answer within {self._call_seconds:g} s")
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                await self.close()
                return error_result(call, f"{self.name} has ended; the next call starts it again")
            return error_result(call, error.message)
        # As in `_serve`: errors of many libraries.
        except Exception as error:
            return error_result(call, f"{self.name}: {_reason(error)}")
        return text_result(call, _text(result), is_error=result.is_error)


class _ConnectFailed(Exception):
    """The connection or the list of tools failed."""


async def _list_tools(client: Client) -> list[ListedTool]:
    """Return the server's tools of all pages, within bounds."""
    found: list[ListedTool] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if cursor is None or len(found) > MAX_TOOLS:
            break
    return found[: MAX_TOOLS + 1]


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
    if len(text) > MAX_RESULT_CHARACTERS:
        return f"{text[:MAX_RESULT_CHARACTERS]}\n[cut: {len(text):,} characters in all]"
    return text


def _reason(error: BaseException) -> str:
    """Return the first line of an error, or of a group's first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError):
        return f"there is no command {error.filename!r}"
    text = error.message if isinstance(error, MCPError) else str(error)
    return (text.strip().splitlines() or [type(error).__name__])[0]
