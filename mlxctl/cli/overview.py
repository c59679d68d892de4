"""The screen of `mlxctl` without arguments."""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlxctl import __version__
from mlxctl.cli.served_directories import cards, open_library
from mlxctl.ir.errors import MlxctlError
from mlxctl.terminal_text import echo, escape_line

if TYPE_CHECKING:
    from mlxctl.state.stores.server_cards import ServerCard

_MAX_NAMES = 3


def print_overview() -> None:
    """Print the servers and models of this user, and commands for them.

    Asks no server: the cards of running ones suffice.
    """
    servers = cards()
    models, problem = _library_models()
    echo(f"mlxctl {__version__}: serve, probe, chat with and measure MLX models\n")
    for server in servers:
        names = [model.name for model in server.models]
        echo(f"  server  {escape_line(server.url)}  {_join(names)}")
    if not servers:
        echo("  server  none is running")
    echo(f"  models  {problem or _join(models) or 'none on this machine yet'}\n")
    rows = _next_steps(servers, models)
    width = max(len(command) for command, _ in rows)
    for command, purpose in rows:
        echo(f"  {command:<{width}}  {purpose}")


def _library_models() -> tuple[list[str], str | None]:
    """Return the usable models of the library, or its problem."""
    try:
        return [entry.name for entry in open_library(None).entries() if entry.problem is None], None
    except MlxctlError as error:
        return [], escape_line(str(error))


def _join(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return escape_line(", ".join(names[:_MAX_NAMES])) + more


def _next_steps(servers: "Sequence[ServerCard]", models: Sequence[str]) -> list[tuple[str, str]]:
    """Return commands with their purpose, the most likely first."""
    if servers:
        steps = [
            ("mlxctl chat", "chat in the terminal"),
            ("mlxctl launch claude", "start a coding agent with this server"),
            ("mlxctl top", "monitor speed, requests and memory"),
        ]
    elif models:
        name = escape_line(shlex.quote(models[0]))
        steps = [
            (f"mlxctl serve {name}", "serve it to OpenAI and Anthropic clients"),
            (f"mlxctl chat --model {name}", "chat in the terminal"),
            ("mlxctl launch claude", "start a coding agent with a local model"),
        ]
    else:
        steps = [
            ("mlxctl chat", "chat with the tiny demo model"),
            ("mlxctl models recommend", "find models that fit this machine"),
            ("mlxctl run qwen3:4b", "download a model and chat with it"),
        ]
    return [*steps, ("mlxctl doctor", "check the installation"), ("mlxctl --help", "list all commands")]
