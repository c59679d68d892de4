"""Servers that commands find, and those that they cannot use."""

import asyncio
import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest

from mlxctl.chat.chat_backend import RemoteBackend
from mlxctl.cli import running_server
from mlxctl.cli.options import server_url
from mlxctl.cli.running_server import any_server, running_servers, server_with
from mlxctl.state import locations
from mlxctl.state.settings import Settings, resolve
from mlxctl.state.stores.server_cards import CardFile, ServedDirectory, ServerCard
from tests.http_double import running

Model = dict[str, Any]


class _Models(BaseHTTPRequestHandler):
    """Lists models; names a process of the machine as its engine."""

    models: ClassVar[list[Model]]

    def do_GET(self) -> None:
        body = {"data": self.models} if self.path == "/v1/models" else {"engine": {"pid": 1}}
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: object) -> None:
        """Write no log."""


class User:
    """A user with servers; each lists models and leaves a card."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.ports: list[int] = []

    def serve(self, *models: Model, has_card: bool = True) -> str:
        handler = type("Models", (_Models,), {"models": list(models)})
        server = self._stack.enter_context(running(ThreadingHTTPServer(("127.0.0.1", 0), handler)))
        url = f"http://127.0.0.1:{server.server_port}"
        self.ports.append(server.server_port)
        if has_card:
            self.leave_card(url, *models)
        return url

    def leave_card(self, url: str, *models: Model) -> None:
        directories = tuple(ServedDirectory(name=each["id"], path=f"/x/{each['id']}") for each in models)
        file = CardFile(locations.server_cards_directory(), port=urlsplit(url).port or 0)
        file.write(ServerCard(pid=4242, url=url, models=directories))
        self._stack.callback(file.close)

    def settings(self, port: int | None = None) -> Settings:
        return resolve(environment={"MLXCTL_SERVER_PORT": str(port or self.ports[0])})


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[User]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with ExitStack() as stack:
        yield User(stack)


def test_the_server_of_the_settings_is_asked_before_others(user: User) -> None:
    first, second = user.serve({"id": "a"}), user.serve({"id": "b"})
    assert [server.url for server in running_servers(user.settings(user.ports[1]), None)] == [second, first]
    found = server_with("a", user.settings(user.ports[1]), api_key=None, is_quiet=True)
    assert found is not None
    assert found.address == first


def test_commands_find_the_running_server(
    user: User, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLXCTL_SERVER_PORT", "9")
    assert server_url(None) == "http://127.0.0.1:9"
    urls = [user.serve({"id": "a"})]
    assert server_url(None) == urls[0]
    assert capsys.readouterr().err == ""
    urls.append(user.serve({"id": "b"}))
    assert server_url(None) in urls
    assert "--url names one of them" in capsys.readouterr().err
    monkeypatch.setenv("MLXCTL_SERVER_PORT", str(user.ports[1]))
    assert server_url(None) == urls[1]
    assert server_url("http://other") == "http://other"


def test_a_chat_names_other_servers_and_other_models(user: User, capsys: pytest.CaptureFixture[str]) -> None:
    loaded, alias = {"id": "one", "root": "one"}, {"id": "uno", "root": "one"}
    first = user.serve(loaded, alias, {"id": "vectors", "kind": "embeddings"}, {"id": "two"})
    second = user.serve({"id": "three"})
    found = any_server(user.settings(), api_key=None)
    assert found is not None
    assert found.address == first
    shown = capsys.readouterr().err
    assert f"other servers run here, too; --url names one of them: {second}" in shown
    assert f"the server at {first} has 2 models, and this is one; another: --model two" in shown


class Typed(io.StringIO):
    """What the user types on a terminal."""

    def isatty(self) -> bool:
        return True


def test_on_a_terminal_the_user_chooses_the_model(
    user: User, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    user.serve({"id": "one", "state": "loaded", "max_model_len": 4096}, {"id": "two\x1b[31m"})
    monkeypatch.setattr(sys, "stdin", Typed("x\n3\n2\n"))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    found = any_server(user.settings(), api_key=None)
    assert isinstance(found, RemoteBackend)
    assert asyncio.run(found.open()).name == "two\x1b[31m"
    shown = capsys.readouterr().err
    assert "  1  one  loaded  context 4,096\n  2  two␛[31m\nModel [1]: Type a number from 1 to 2." in shown


def test_a_library_is_offered_only_beside_the_demo_model(user: User) -> None:
    demo, more = {"id": "mlxctl-demo", "is_demo": True}, {"id": "big", "from_library": True}
    user.serve(demo, more)
    user.serve({"id": "own"}, more)
    servers = running_servers(user.settings(), None)
    assert [server.chat_models() for server in servers] == [["mlxctl-demo", "big"], ["own"]]


def test_a_server_that_ended_badly_is_named_with_the_way_out(
    user: User, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_server, "_OWN_READ_SECONDS", 0.2)
    user.leave_card("http://127.0.0.1:1", {"id": "a"})
    assert any_server(user.settings(1), api_key=None) is None
    expected = (
        "the server at http://127.0.0.1:1 does not answer within 0.2 s and is not used; to end it: kill 4242"
    )
    assert expected in capsys.readouterr().err


def test_the_server_of_another_user_is_not_used(
    user: User, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = user.serve({"id": "a"}, has_card=False)

    def kill(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", kill)
    assert server_with("a", user.settings(), api_key=None, is_quiet=True) is None
    shown = capsys.readouterr().err
    assert f"the server at {url} runs as another user or in a container" in shown
    assert f"--url {url} uses it" in shown
