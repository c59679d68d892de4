"""Finds a running server that has a model."""

import socket
from typing import TYPE_CHECKING

from mlxctl.errors import AuthenticationFailed, ClientNotReady, ModelNotFoundOnDisk, ServerUnreachable
from mlxctl.locations import expand_user
from mlxctl.settings import Settings
from mlxctl.terminal_text import echo

if TYPE_CHECKING:
    from mlxctl.tui.chat_backend import ChatBackend

_CONNECT_SECONDS = 0.5
# Another program may listen there and not answer.
_READ_SECONDS = 5.0


def server_with(
    name: str, settings: Settings, *, api_key: str | None, is_quiet: bool
) -> "ChatBackend | None":
    """Return the server of the settings if it has the model.

    Then the model is in memory once. Not for a directory: the server may have another one of the same name.
    Says so on standard error unless `is_quiet`, and also that the server needs another key.
    """
    address = (settings.server.host, settings.server.port)
    try:
        # PERF: without a server, no HTTP client is imported.
        socket.create_connection(address, timeout=_CONNECT_SECONDS).close()
    except OSError:
        return None
    from mlxctl.cli.models import open_library
    from mlxctl.launch.background_server import default_url, list_models
    from mlxctl.tui.chat_backend import RemoteBackend

    url = default_url(settings)
    try:
        directory = open_library(None).resolve(name)
        cards = list_models(url, api_key, read_seconds=_READ_SECONDS)
    except AuthenticationFailed as error:
        echo(f"mlxctl: the model is loaded here: {error}", err=True)
        return None
    except (ServerUnreachable, ClientNotReady, ModelNotFoundOnDisk):
        # Another program listens there. The local engine reports an unknown model.
        return None
    served = {card["id"] for card in cards}
    found = next((known for known in (name, directory.name) if known in served), None)
    if found is None or directory.path == expand_user(name):
        return None
    if not is_quiet:
        echo(f"mlxctl: using the server at {url}; --local loads the model here", err=True)
    return RemoteBackend(url, model=found, api_key=api_key)
