"""Options that several commands share, and options that stand for settings."""

import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from mlxctl.cli.parameters import Option, opening
from mlxctl.state import locations
from mlxctl.state.settings import Settings, describe_default, describe_field, resolve
from mlxctl.terminal_text import echo

if TYPE_CHECKING:
    from mlxctl.cli.server_client import ServerClient

AsJson = Annotated[bool, Option("--json", help="Print JSON instead of text.")]
ConfigFile = Annotated[
    Path | None,
    Option("--config", metavar="FILE", help="Settings file to read instead of the default one."),
]
ServerUrl = Annotated[
    str | None,
    Option("--url", metavar="URL", help="The server.  [default: the one that `mlxctl serve` starts here]"),
]
ApiKey = Annotated[
    str | None, Option("--api-key", metavar="KEY", envvar="MLXCTL_API_KEY", help="Key for that server.")
]
System = Annotated[str, Option("--system", "-s", metavar="TEXT", help="System prompt.", show_default=False)]
Temperature = Annotated[
    float | None, Option("--temperature", min=0, max=100, help="0 is greedy.  [default: of the model]")
]
TopP = Annotated[
    float | None,
    Option("--top-p", min=0, max=1, help="Nucleus sampling; 0 and 1 are off.  [default: of the model]"),
]
MaxTokens = Annotated[int | None, Option("--max-tokens", min=1, help="Length limit of an answer.")]


def read_settings(
    config: Path | None = None,
    flags: Mapping[str, Mapping[str, object]] | None = None,
    flag_names: Mapping[str, str] | None = None,
) -> Settings:
    """Return the settings of file, environment and flags. Raises SettingsError."""
    return resolve(config_file=config, environment=os.environ, flags=flags, flag_names=flag_names)


def server_url(url: str | None) -> str:
    """Return `url`, or that of this user's running server.

    That is the one on the port of the settings, else the one that was started first; without any it is the
    address of the settings. Raises SettingsError.
    """
    if url:
        return url
    from mlxctl.cli.launch.background_server import default_url
    from mlxctl.state.stores.server_cards import running_cards

    expected = default_url(read_settings())
    urls = [card.url for card in running_cards(locations.server_cards_directory())]
    same = [each for each in urls if urlsplit(each).port == urlsplit(expected).port]
    if len(urls) > 1 and not same:
        echo(f"mlxctl: several servers run here, and this is {urls[0]}; --url names one of them", err=True)
    return next(iter([*same, *urls]), expected)


def open_server(url: ServerUrl = None, api_key: ApiKey = None) -> AbstractContextManager["ServerClient"]:
    """Return a client of the server at `url`. Raises SettingsError."""
    from mlxctl.cli.server_client import ServerClient

    return ServerClient(server_url(url), api_key=api_key)


with_server = opening(open_server)


def print_json(value: Any) -> None:
    """Print one JSON document."""
    echo(json.dumps(value, indent=2, ensure_ascii=False))


def setting(section: type, field: str, *flags: str, metavar: str | None = None) -> Option:
    """Return the option for `section.field`, with its docstring and default.

    A flag that is not given is None, so that file and environment hold.
    """
    return Option(*flags, help=describe_setting(section, field), metavar=metavar, show_default=False)


def describe_setting(section: type, field: str) -> str:
    """Return the help text of a setting: its docstring and default."""
    default = describe_default(section, field)
    if default == "True":
        default = "on"
    return describe_field(section, field) + (f"  [default: {default}]" if default else "")
