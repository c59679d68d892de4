"""The prefix cache that a command works on.

A running server's, or a directory's.
"""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mlxctl.cli.options import ApiKey, ServerUrl, open_server, read_settings
from mlxctl.cli.parameters import Option, opening
from mlxctl.ir.errors import UsageError
from mlxctl.state import locations

if TYPE_CHECKING:
    from mlxctl.cli.inspector.directory import CacheDirectory
    from mlxctl.cli.server_client import ServerClient

    Cache = ServerClient | CacheDirectory

Directory = Annotated[
    Path | None,
    Option(
        "--dir", metavar="DIRECTORY", help="Directory of `serve --cache-dir`.  [default: that of `serve`]"
    ),
]
OnDisk = Annotated[bool, Option("--disk", help="Use the cache on disk, without a server.")]
DirectoryInstead = Annotated[
    Path | None,
    Option(
        "--dir",
        metavar="DIRECTORY",
        help="Use the cache in this directory, as given to `serve --cache-dir`, without a server.",
    ),
]


def open_cache(
    url: ServerUrl = None,
    api_key: ApiKey = None,
    on_disk: OnDisk = False,
    directory: DirectoryInstead = None,
) -> AbstractContextManager["Cache"]:
    """Return a client of the server, or the directory.

    The directory with --disk or --dir. Raises SettingsError.
    """
    if not on_disk and directory is None:
        return open_server(url, api_key)
    if url is not None:
        raise UsageError("--url is for a server, --disk and --dir are for a directory; give one of them")
    from mlxctl.cli.inspector.directory import CacheDirectory
    from mlxctl.cli.inspector.local_models import LocalModels

    max_bytes, min_free_bytes = disk_limits()
    models = LocalModels(read_settings())
    return CacheDirectory(
        cache_directory(directory), max_bytes=max_bytes, min_free_bytes=min_free_bytes, models=models
    )


with_cache = opening(open_cache)


def disk_limits() -> tuple[int, int]:
    """Return size limit and free disk space to keep, in bytes.

    Raises SettingsError.
    """
    engine = read_settings().engine
    # A limit of 0 keeps a server from writing; it must not delete stored records here.
    return engine.cache_disk_bytes or 2**62, engine.cache_min_free_bytes


def cache_directory(named: Path | None) -> Path:
    """Return `named`, or the directory that `mlxctl serve` uses. Raises SettingsError."""
    return named or read_settings().engine.cache_dir or locations.cache_directory()
