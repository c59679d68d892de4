"""Settings of a running server as NAME=VALUE lines."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mlxctl.cli.options import print_json
from mlxctl.terminal_text import echo, escape_line

if TYPE_CHECKING:
    from mlxctl.cli.server_bodies import LiveSettings


def print_settings(found: "LiveSettings", *, as_json: bool) -> None:
    """Print settings as NAME=VALUE lines, which `read_changes` reads, or as JSON."""
    if as_json:
        print_json(found)
        return
    for name, value in found.items():
        echo(escape_line(f"{name}={json.dumps(value)}"))


def read_changes(texts: Iterable[str]) -> dict[str, Any]:
    """Return the values of NAME=VALUE texts by name.

    The server checks both. Raises UsageError.
    """
    return dict(map(_change, texts))


def _change(text: str) -> tuple[str, Any]:
    from mlxctl.ir.errors import UsageError

    name, is_pair, value = text.partition("=")
    if not is_pair or not name:
        raise UsageError(f"expected NAME=VALUE, got {text!r}")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value
