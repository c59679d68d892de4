"""The options that every command about the cache has, and the server that they name."""

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from mlxctl import locations
from mlxctl.errors import InvalidRequest
from mlxctl.inspector.directory import CacheDirectory
from mlxctl.inspector.server import CacheServer
from mlxctl.settings import resolve

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Url = Annotated[
    str | None,
    typer.Option(
        "--url", metavar="URL", help="The server.  [default: the one that `mlxctl serve` starts here]"
    ),
]
ApiKey = Annotated[
    str | None, typer.Option("--api-key", metavar="KEY", envvar="MLXCTL_API_KEY", help="Key for that server.")
]
Directory = Annotated[
    Path | None,
    typer.Option(
        "--dir", metavar="DIRECTORY", help="What `serve --cache-dir` names.  [default: as `serve` does]"
    ),
]
OnDisk = Annotated[bool, typer.Option("--disk", help="What lies on disk, without a server.")]
DirectoryInstead = Annotated[
    Path | None,
    typer.Option("--dir", metavar="DIRECTORY", help="As --disk, in what `serve --cache-dir` names."),
]
Keys = Annotated[
    list[str], typer.Argument(metavar="KEY...", help="Branches, by the beginning of a key that `ls` shows.")
]


def server_url(named: str | None) -> str:
    """Return the URL that is meant: that of what `mlxctl serve` starts here unless one is named; raises
    SettingsError.
    """
    server = resolve(environment=os.environ).server
    return named or f"http://{server.host}:{server.port}"


def open_server(url: str | None, api_key: str | None) -> CacheServer:
    """Return the server that is meant; raises SettingsError."""
    return CacheServer(server_url(url), api_key=api_key)


def open_cache(
    url: str | None, api_key: str | None, *, on_disk: bool, directory: Path | None
) -> CacheServer | CacheDirectory:
    """Return the server, or the directory if that is asked for; raises SettingsError and InvalidRequest."""
    if not on_disk and directory is None:
        return open_server(url, api_key)
    if url is not None:
        raise InvalidRequest(
            "--url names a server, --disk and --dir what lies on disk without one; give either"
        )
    from mlxctl.bootstrap.local_models import LocalModels

    max_bytes, min_free_bytes = disk_limits()
    models = LocalModels(resolve(environment=os.environ))
    return CacheDirectory(
        cache_directory(directory), max_bytes=max_bytes, min_free_bytes=min_free_bytes, models=models
    )


def disk_limits() -> tuple[int, int]:
    """Return how much room the cache may take on disk and how much must stay free, as set; raises
    SettingsError.
    """
    engine = resolve(environment=os.environ).engine
    # No room for a server's cache is no wish to lose what is there.
    return engine.cache_disk_bytes or 2**62, engine.cache_min_free_bytes


def cache_directory(named: Path | None) -> Path:
    """Return the cache directory that is meant: the one that `mlxctl serve` takes unless one is named; raises
    SettingsError.
    """
    return named or resolve(environment=os.environ).engine.cache_dir or locations.cache_directory()


def print_json(value: Any) -> None:
    """Print one JSON document."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))
