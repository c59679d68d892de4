"""Running servers of this user, and the models that they have.

A server without a card, of an older version or in a container, is found at the address of the settings, and
its models are known by their names only.
"""

import os
import shlex
import socket
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mlxctl.cli.served_directories import cards, find_served, open_library, serves
from mlxctl.ir.errors import (
    AuthenticationFailed,
    ClientNotReady,
    MlxctlError,
    ModelNotFoundOnDisk,
    ServerUnreachable,
    UsageError,
)
from mlxctl.state.locations import expand_user
from mlxctl.state.settings import Settings
from mlxctl.terminal_text import echo, escape_line

if TYPE_CHECKING:
    from mlxctl.chat.chat_backend import ChatBackend
    from mlxctl.inference.remote import RemoteModel
    from mlxctl.library import NamedDirectory
    from mlxctl.state.stores.server_cards import ServerCard

_CONNECT_SECONDS = 0.5
# Another program may listen there and not answer. A server with a card runs, and may be busy.
_READ_SECONDS, _OWN_READ_SECONDS = 5.0, 15.0
_MAX_CHOICES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """A server that answers.

    `models` are the entries of its list by name; `card` is None for one that left none.
    """

    url: str
    api_key: str | None
    models: "dict[str, RemoteModel]"
    card: "ServerCard | None"

    def name_of(self, name: str, directory: "NamedDirectory | None") -> str | None:
        """Return the server's name of a model; None if it has none.

        `name` is a name or a path, and `directory` is where it is on this machine. A path is recognized by
        the card, never by its last part.
        """
        is_path = directory is not None and directory.path == expand_user(name)
        if name in self.models and not is_path:
            return name
        if directory is None:
            return None
        if self.card is None:
            return directory.name if directory.name in self.models and not is_path else None
        found = find_served(self.card, directory.path)
        return found.name if found is not None and found.name in self.models else None

    def chat_models(self) -> list[str]:
        """Return the models to choose from for a chat.

        Those of the library count where the server was started with no other.
        """
        usable = [
            name
            for name, model in self.models.items()
            if model.alias_of is None and model.can_chat and model.problem is None
        ]
        named = [name for name in usable if not self.models[name].from_library]
        return usable if all(self.models[name].is_demo for name in named) else named

    def speech_model(self) -> str | None:
        """Return the first model that speaks texts, None without one."""
        found = (name for name, model in self.models.items() if model.can_speak and model.problem is None)
        return next(found, None)

    def backend(self, name: str, *, is_quiet: bool = False) -> "ChatBackend":
        """Return the server as the backend of a chat, and say so."""
        from mlxctl.chat.chat_backend import RemoteBackend

        if not is_quiet:
            echo(f"mlxctl: using the server at {self.url}; --local loads the model here", err=True)
        return RemoteBackend(self.url, model=name, api_key=self.api_key)


def check_url(url: str | None, *, is_local: bool) -> None:
    """Raise UsageError for a server together with the local engine."""
    if url and is_local:
        raise UsageError("--url and --local exclude each other: choose the server or the local engine")


def server_with(
    name: str, settings: Settings, *, api_key: str | None, is_quiet: bool
) -> "ChatBackend | None":
    """Return a running server that has the model.

    Then the model is in memory once. Says on standard error which server that is, or that the model is loaded
    beside one, unless `is_quiet`.
    """
    found = find_server_with(name, settings, api_key=api_key, is_quiet=is_quiet)
    return found[0].backend(found[1], is_quiet=is_quiet) if found is not None else None


def find_server_with(
    name: str, settings: Settings, *, api_key: str | None, is_quiet: bool
) -> tuple[RunningServer, str] | None:
    """Return a running server that has the model, and its name there.

    Says on standard error why none is used, unless `is_quiet`.
    """
    servers = running_servers(settings, api_key)
    if not servers:
        return None
    directory = _find_on_disk(name)
    found = _find_served(name, directory, servers)
    if found is not None:
        return found
    if directory is not None and not is_quiet:
        for server in servers:
            _say_why_not(server, name, directory.path)
    return None


def any_server(settings: Settings, *, api_key: str | None) -> "ChatBackend | None":
    """Return a running server for a chat that names no model.

    With the model of the settings, else its only one, else one that the user chooses.
    """
    servers = running_servers(settings, api_key)
    if settings.model.path is not None:
        wanted = str(settings.model.path)
        found = _find_served(wanted, _find_on_disk(wanted), servers)
        if found is not None:
            server, served_name = found
            return server.backend(served_name)
    usable = [server for server in servers if server.chat_models()]
    if not usable:
        for server in servers:
            echo(f"mlxctl: the server at {server.url} has no model to chat with", err=True)
        return None
    first, *others = usable
    if others:
        urls = ", ".join(server.url for server in others)
        echo(f"mlxctl: other servers run here, too; --url names one of them: {urls}", err=True)
    return first.backend(_choose(first))


def speaking_server(settings: Settings, *, api_key: str | None) -> "ChatBackend | None":
    """Return a running server with a speech model; None without one."""
    for server in running_servers(settings, api_key):
        if (model := server.speech_model()) is not None:
            return server.backend(model, is_quiet=True)
    return None


def tell_servers(directories: Iterable[Path], settings: Settings) -> None:
    """Make the servers of these models read the results of probing them."""
    probed = list(directories)
    for card in cards():
        is_concerned = any(serves(card, directory) for directory in probed)
        # A server reads new results before it lists its models.
        if is_concerned and _open(card.url, card, settings, os.environ.get("MLXCTL_API_KEY")) is not None:
            echo(f"mlxctl: the server at {card.url} uses these results now", err=True)


def running_servers(settings: Settings, api_key: str | None) -> list[RunningServer]:
    """Return the servers that answer, that of the settings first.

    Says why others cannot be used.
    """
    port = settings.server.port or 8080
    found = sorted(cards(), key=lambda card: urlsplit(card.url).port != port)
    servers = [_open(card.url, card, settings, api_key) for card in found]
    if not (found and urlsplit(found[0].url).port == port) and _is_listening(settings.server.host, port):
        from mlxctl.cli.launch.background_server import default_url

        servers.insert(0, _open(default_url(settings), None, settings, api_key))
    return [server for server in servers if server is not None]


def _is_listening(host: str, port: int) -> bool:
    try:
        # PERF: without a server, no HTTP client is imported.
        socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def _open(
    url: str, card: "ServerCard | None", settings: Settings, api_key: str | None
) -> RunningServer | None:
    """Return the server at `url`; None if it cannot be used."""
    from mlxctl.cli.launch.background_server import list_models

    # SEC: keys of the settings are for servers of this user.
    own_key = next(iter(settings.server.api_keys), None) if card is not None else None
    key, seconds = api_key or own_key, _READ_SECONDS if card is None else _OWN_READ_SECONDS
    try:
        listed = list_models(url, key, read_seconds=seconds)
    except AuthenticationFailed as error:
        echo(f"mlxctl: the model is loaded here: {error}", err=True)
        return None
    except (ServerUnreachable, ClientNotReady):
        # Without a card, another program listens there.
        if card is not None:
            echo(
                f"mlxctl: the server at {url} does not answer within {seconds:g} s and is not used; "
                f"to end it: kill {card.pid}",
                err=True,
            )
        return None
    if card is None and _is_of_another_user(url):
        echo(
            f"mlxctl: the server at {url} runs as another user or in a container, and is not used; "
            f"--url {url} uses it",
            err=True,
        )
        return None
    models = {model.name: model for model in listed}
    return RunningServer(url=url, api_key=key, models=models, card=card)


def _is_of_another_user(url: str) -> bool:
    """Whether the process that the server names belongs to another user."""
    from mlxctl.cli.server_connection import ServerConnection

    # It may say nothing to callers without a key, and its process may be on another machine.
    with suppress(MlxctlError, TypeError, KeyError, ValueError, OverflowError, ProcessLookupError):
        with ServerConnection(url, api_key=None) as server:
            health = server.request("GET", "/health", dict[str, Any])
        try:
            os.kill(int(health["engine"]["pid"]), 0)
        except PermissionError:
            return True
    return False


def _find_on_disk(name: str) -> "NamedDirectory | None":
    try:
        return open_library(None).resolve(name)
    except ModelNotFoundOnDisk:
        return None


def _find_served(
    name: str, directory: "NamedDirectory | None", servers: Sequence[RunningServer]
) -> tuple[RunningServer, str] | None:
    """Return the first server that has the model, and its name there."""
    for server in servers:
        if (found := server.name_of(name, directory)) is not None:
            return server, found
    return None


def _say_why_not(server: RunningServer, name: str, directory: Path) -> None:
    if server.card is not None and serves(server.card, directory):
        echo(
            f"mlxctl: the files of {name} have changed since the server at {server.url} loaded them; restart "
            "that server to use it",
            err=True,
        )
    else:
        echo(
            f"mlxctl: loading {name} here, beside the server at {server.url}; --url {server.url} uses a "
            "model of that server",
            err=True,
        )


def _choose(server: RunningServer) -> str:
    """Return the only model, the user's choice, or the first."""
    names = server.chat_models()
    if len(names) == 1:
        return names[0]
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        echo(
            f"mlxctl: the server at {server.url} has {len(names)} models, and this is {names[0]}; another: "
            f"--model {shlex.quote(names[1])}",
            err=True,
        )
        return names[0]
    echo(f"The server at {server.url} has {len(names)} models:", err=True)
    for number, name in enumerate(names[:_MAX_CHOICES], 1):
        echo(f"{number:>3}  {_describe(server.models[name])}", err=True)
    if len(names) > _MAX_CHOICES:
        echo(f"     and {len(names) - _MAX_CHOICES} more; --model NAME chooses one of them", err=True)
    return names[_read_number(min(len(names), _MAX_CHOICES)) - 1]


def _describe(model: "RemoteModel") -> str:
    facts = ["loaded"] if model.state == "loaded" else []
    if model.context_length is not None:
        facts.append(f"context {model.context_length:,}")
    return escape_line("  ".join((model.name, *facts)))


def _read_number(most: int) -> int:
    """Return the number that the user types; an empty line is 1."""
    while True:
        echo("Model [1]: ", err=True, end="")
        line = sys.stdin.readline().strip()
        if not line:
            return 1
        if line.isascii() and line.isdecimal() and 1 <= int(line[:9]) <= most:
            return int(line[:9])
        echo(f"Type a number from 1 to {most}.", err=True)
