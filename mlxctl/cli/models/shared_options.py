"""The options that every command about models has, and the library that they open."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from mlxctl.models import Library
from mlxctl.settings import Settings, resolve

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Settings file to read instead of the usual one."),
]


def read_settings(config: Path | None, flags: Mapping[str, Mapping[str, object]] | None = None) -> Settings:
    """Return the settings; raises SettingsError."""
    return resolve(config_file=config, environment=os.environ, flags=flags)


def open_library(config: Path | None) -> Library:
    """Return the library that the settings describe; raises SettingsError."""
    return Library(read_settings(config).library)


def print_json(value: Any) -> None:
    """Print one JSON document."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))
