"""MCP servers: configuration, tools, approval, and servers that fail."""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mlxctl.chat.launch import open_toolbox
from mlxctl.chat.tools import mcp_server, mcp_transport
from mlxctl.chat.tools.mcp_config import McpServerConfig, read_mcp_config
from mlxctl.chat.tools.mcp_server import McpServer
from mlxctl.chat.tools.toolbox import ToolBox
from mlxctl.ir import ToolCallPart, ToolResultPart
from mlxctl.ir.errors import SettingsError

from . import mcp_echo_server
from .screen_driver import Screen, drive
from .scripted_backend import ScriptedBackend, call, text

SCRIPT = str(Path(__file__).parent / "mcp_echo_server.py")


def config(*arguments: str, **env: str) -> McpServerConfig:
    return McpServerConfig(command=sys.executable, args=("-S", SCRIPT, *arguments), env=env)


def echo(**arguments: object) -> ToolCallPart:
    return ToolCallPart(id="call_1", name="files__echo_text", arguments=json.dumps(arguments))


def with_server(
    server: McpServer, play: Callable[[ToolBox], Awaitable[list[ToolResultPart]]]
) -> list[ToolResultPart]:
    """Return the results of `play` with the tools of the server."""

    async def run() -> list[ToolResultPart]:
        box = ToolBox([server])
        await box.open()
        try:
            return await play(box)
        finally:
            await box.close()

    return asyncio.run(run())


def test_tools_of_all_pages_are_offered_and_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLXCTL_API_KEY", "secret")

    async def play(box: ToolBox) -> list[ToolResultPart]:
        assert [spec.name for spec in box.specs][:3] == ["files__echo_text", "files__die", "files__hang"]
        assert box.specs[0].parameters["required"] == ["text"]
        assert box.find("files__echo_text").needs_approval
        return [await box.run(echo(text="hello")), await box.run(echo()), await box.run(echo(text=1))]

    fine, failed, _ = with_server(McpServer("files", config(MARK="m")), play)
    assert (fine.text, fine.is_error) == ("hello (no key, m)", False)
    assert (failed.text, failed.is_error) == ("text is missing", True)


def test_server_that_died_is_an_error_and_is_started_again() -> None:
    async def play(box: ToolBox) -> list[ToolResultPart]:
        died = await box.run(ToolCallPart(id="call_1", name="files__die", arguments=""))
        return [died, await box.run(echo(text="again"))]

    died, again = with_server(McpServer("files", config()), play)
    assert died.is_error
    assert "MCP server 'files' has ended, after printing 'out of memory'; the next call" in died.text
    assert again.text.startswith("again")


def test_call_without_an_answer_ends_at_its_time_limit() -> None:
    async def play(box: ToolBox) -> list[ToolResultPart]:
        return [await box.run(ToolCallPart(id="call_1", name="files__hang", arguments="{}"))]

    (result,) = with_server(McpServer("files", config(), call_seconds=0.3), play)
    assert result.is_error
    assert "did not answer within 0.3 s" in result.text


def tool_call(name: str) -> ToolCallPart:
    return ToolCallPart(id="call_1", name=f"files__{name}", arguments="{}")


def test_server_that_hangs_in_a_call_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_server, "_CHECK_SECONDS", 0.3)

    async def play(box: ToolBox) -> list[ToolResultPart]:
        calls = [tool_call("process_id"), tool_call("hang"), tool_call("process_id")]
        return [await box.run(each) for each in calls]

    # Long enough for the calls that do not hang, also on a slow machine.
    before, hung, after = with_server(McpServer("files", config(), call_seconds=1.5), play)
    assert "did not answer within 1.5 s" in hung.text
    assert not after.is_error
    assert before.text != after.text


def test_error_of_a_server_reaches_the_model_and_the_server_stays_usable() -> None:
    async def play(box: ToolBox) -> list[ToolResultPart]:
        calls = [tool_call("process_id"), tool_call("break"), tool_call("process_id")]
        return [await box.run(each) for each in calls]

    before, broken, after = with_server(McpServer("files", config()), play)
    assert (broken.text, broken.is_error) == ("error: the disk is full", True)
    assert before.text == after.text


def test_lines_that_are_no_messages_are_skipped_silently(capfd: pytest.CaptureFixture[str]) -> None:
    async def play(box: ToolBox) -> list[ToolResultPart]:
        return [await box.run(echo(text="hello"))]

    (result,) = with_server(McpServer("files", config("chatty")), play)
    assert result.text.startswith("hello")
    assert capfd.readouterr().err == ""


def test_too_long_message_ends_the_call_and_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_transport, "MAX_MESSAGE_BYTES", 100_000)

    async def play(box: ToolBox) -> list[ToolResultPart]:
        return [await box.run(tool_call("flood")), await box.run(echo(text="again"))]

    flooded, again = with_server(McpServer("files", config()), play)
    assert "it sent a message of more than 16 MB; the next call starts it again" in flooded.text
    assert again.text.startswith("again")


def test_tools_that_are_left_out_are_counted() -> None:
    async def play(box: ToolBox) -> list[ToolResultPart]:
        assert box.problems == ["The first 128 tools are offered to the model, 1,072 are left out."]
        assert "files__tool_23 and 104 more\n" in box.describe(is_offered=True)
        return []

    assert with_server(McpServer("files", config("many")), play) == []


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (config("fail"), "MCP server 'files' is not available: no license found"),
        (McpServerConfig(command="no-such-command"), "there is no command 'no-such-command'"),
        (config("silent"), "MCP server 'files' did not answer within 0.2 s"),
        (McpServerConfig(command="/"), "'/' cannot be started: permission denied"),
        (McpServerConfig(url="http://me:key@127.0.0.1:9/mcp?key=k"), "failed (127.0.0.1:9). The chat"),
    ],
)
def test_unavailable_server_is_a_problem_of_one_line(broken: McpServerConfig, problem: str) -> None:
    seconds = 0.2 if "silent" in broken.args else 20.0

    async def play(box: ToolBox) -> list[ToolResultPart]:
        (line,) = box.problems
        assert problem in line
        assert "\n" not in line
        return [await box.run(echo(text="x"))]

    (result,) = with_server(McpServer("files", broken, connect_seconds=seconds), play)
    assert "there is no tool" in result.text


class _HttpServer(BaseHTTPRequestHandler):
    """The echo server over streamable HTTP; requires a header."""

    def log_message(self, *arguments: object) -> None:
        """Write no log."""

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        result = mcp_echo_server.answer(message) if self.headers["X-Key"] == "k" else None
        body = {"error": {"code": -32601, "message": "unknown"}} if result is None else {"result": result}
        data = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), **body}).encode()
        self.send_response(401 if self.headers["X-Key"] is None else 200 if "id" in message else 202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data) if "id" in message else 0))
        self.end_headers()
        if "id" in message:
            self.wfile.write(data)

    def do_GET(self) -> None:
        self.send_error(405)

    do_DELETE = do_GET  # noqa: N815 -- a name of the HTTP server


@contextmanager
def http_server() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _HttpServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        server.server_close()


def test_streamable_http_server_gets_the_headers() -> None:
    async def play(box: ToolBox) -> list[ToolResultPart]:
        return [await box.run(echo(text="over http"))]

    with http_server() as url:
        (result,) = with_server(McpServer("files", McpServerConfig(url=url, headers={"X-Key": "k"})), play)
    assert result.text.startswith("over http")


def test_http_status_of_a_failed_connection_is_named() -> None:
    async def play(box: ToolBox) -> list[ToolResultPart]:
        (problem,) = box.problems
        assert "is not available: it answered with HTTP status 401; check its `headers`. The" in problem
        return []

    with http_server() as url:
        assert with_server(McpServer("files", McpServerConfig(url=url)), play) == []


def test_too_long_http_body_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_transport, "MAX_MESSAGE_BYTES", 10_000)

    async def play(box: ToolBox) -> list[ToolResultPart]:
        return [await box.run(echo(text="x" * 20_000)), await box.run(echo(text="again"))]

    with http_server() as url:
        long, again = with_server(McpServer("files", McpServerConfig(url=url, headers={"X-Key": "k"})), play)
    assert (long.text, long.is_error) == ("error: it sent a message of more than 16 MB", True)
    assert again.text.startswith("again")


def write(path: Path, document: object) -> Path:
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def test_configuration_of_other_clients_is_read(tmp_path: Path) -> None:
    servers = {
        "files": {
            "command": "npx",
            "args": ["-y", "x", "${HOME}"],
            "env": {"K": "${TOKEN}"},
            "alwaysAllow": [],
        },
        "web": {
            "type": "http",
            "url": "https://example.com/mcp",
            "headers": {"Authorization": "Bearer ${TOKEN}"},
        },
        "off": {"command": "x", "disabled": True},
    }
    found = read_mcp_config(
        write(tmp_path / "mcp.json", {"mcpServers": servers}), {"HOME": "/home/x", "TOKEN": "t"}
    )
    assert list(found) == ["files", "web"]
    assert (found["files"].args, found["files"].env) == (("-y", "x", "/home/x"), {"K": "t"})
    assert found["web"].headers == {"Authorization": "Bearer t"}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("no json", "is not like"),
        ({"servers": {}}, "is not like"),
        ({"mcpServers": {"x": {}}}, "MCP server 'x' needs either `command` or `url`"),
        ({"mcpServers": {"x": {"command": "a", "url": "http://b"}}}, "needs either"),
        ({"mcpServers": {"x": {"type": "sse", "url": "http://b"}}}, "has the type 'sse'"),
        ({"mcpServers": {"x": {"url": "file:///etc/passwd"}}}, "is not an http or https URL"),
        ({"mcpServers": {"x": {"command": "a", "env": {"K": "${NOT_SET}"}}}}, r"uses \$\{NOT_SET\}"),
        ({"mcpServers": {"x": {"command": 5}}}, "Expected `str | null`"),
    ],
)
def test_invalid_configuration_names_the_server_and_the_fix(
    tmp_path: Path, document: object, reason: str
) -> None:
    with pytest.raises(SettingsError, match=reason):
        read_mcp_config(write(tmp_path / "mcp.json", document), {})
    with pytest.raises(SettingsError, match="cannot be read"):
        read_mcp_config(tmp_path / "missing.json")


def toolbox(tmp_path: Path) -> ToolBox:
    server = {"command": sys.executable, "args": ["-S", SCRIPT]}
    return open_toolbox(write(tmp_path / "mcp.json", {"mcpServers": {"files": server}}), has_built_in=False)


@pytest.mark.parametrize(
    ("keys", "result"),
    [
        (("ctrl+y",), "hello (no key, None)"),
        (("y", "enter"), "the user refused this call"),
    ],
)
def test_each_call_runs_only_after_approval(tmp_path: Path, keys: tuple[str, ...], result: str) -> None:
    backend = ScriptedBackend(call("files__echo_text", '{"text": "hello"}'), text("Done."))

    async def interact(screen: Screen) -> None:
        await screen.wait_for("scripted is ready")
        await screen.ask("Say hello")
        seen = await screen.wait_for("Run files__echo_text?")
        assert "The model calls a tool of MCP server 'files'." in seen
        await screen.press(*keys)
        await screen.wait_for("Done.")

    drive(backend, interact, uses_tools=True, tools=toolbox(tmp_path))
    assert backend.requests[1].messages[-1].tool_results[0].text == result


def test_stopping_at_the_approval_leaves_a_result_for_each_call(tmp_path: Path) -> None:
    backend = ScriptedBackend(call("files__echo_text", '{"text": "hello"}'), text("Fine."))

    async def interact(screen: Screen) -> None:
        await screen.wait_for("scripted is ready")
        await screen.ask("Say hello")
        await screen.wait_for("Run files__echo_text?")
        await screen.app.screen_stack[0].run_action("command('stop')")
        await screen.wait_gone("Run files__echo_text?")
        await screen.ask("Never mind")
        await screen.wait_for("Fine.")

    drive(backend, interact, uses_tools=True, tools=toolbox(tmp_path))
    (stopped,) = backend.requests[1].messages[2].tool_results
    assert (stopped.text, stopped.is_error) == ("error: the user stopped this call", True)


def test_escape_continues_without_servers_that_hang() -> None:
    backend = ScriptedBackend(text("Fine."))

    async def interact(screen: Screen) -> None:
        await screen.wait_for("waiting for MCP server 'files' and 1 more (Esc skips)")
        await screen.ask("Hello")
        await screen.press("escape")
        await screen.wait_for("Fine.")
        await screen.wait_for("MCP server 'files' is skipped. The chat continues without it.")

    tools = ToolBox([McpServer(name, config("silent")) for name in ("files", "other")])
    drive(backend, interact, uses_tools=True, tools=tools)


def test_closing_does_not_wait_long_for_a_server_that_ignores_signals(tmp_path: Path) -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1); time.sleep(600)"
    server = McpServer("deaf", McpServerConfig(command=sys.executable, args=("-Sc", deaf)))

    async def close() -> float:
        opening = asyncio.create_task(server.open())
        await asyncio.sleep(0.5)
        opening.cancel()
        await asyncio.sleep(0.1)
        started = time.monotonic()
        await server.close()
        return time.monotonic() - started

    assert asyncio.run(close()) < 1.0


def test_tools_with_one_name_are_all_offered_and_called() -> None:
    async def names_and_results() -> tuple[list[str], list[str]]:
        # Both names are `a_b__echo` in the characters that models accept.
        box = ToolBox([McpServer("a.b", config()), McpServer("a b", config())])
        await box.open()
        try:
            found = [spec.name for spec in box.specs if "echo" in spec.name]
            results = [
                await box.run(ToolCallPart(id="c", name=name, arguments='{"text": "hi"}')) for name in found
            ]
        finally:
            await box.close()
        return found, [result.text for result in results]

    names, texts = asyncio.run(names_and_results())
    assert names == ["a_b__echo_text", "a_b__echo_text_2"]
    assert texts[0] == texts[1]
