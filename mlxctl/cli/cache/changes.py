"""`mlxctl cache warm`, `pin`, `unpin`, `gc`, `settings` and `clear`."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from mlxctl.cli.cache.target import with_cache
from mlxctl.cli.commands import command
from mlxctl.cli.live_settings import print_settings, read_changes
from mlxctl.cli.options import AsJson, print_json, with_server
from mlxctl.cli.parameters import Argument
from mlxctl.terminal_text import echo

if TYPE_CHECKING:
    from mlxctl.cli.cache.target import Cache
    from mlxctl.cli.server_client import ServerClient

NAMES = (
    "prefix_cache_bytes=",
    "prefix_cache_bits=",
    "prefix_cache_group_size=",
    "prefix_cache_exact_tokens=",
    "cache_ttl_seconds=",
    "cache_disk_ttl_seconds=",
)
"""Settings that the server takes; its own declaration is too slow to import at a TAB."""
Keys = Annotated[
    list[str],
    Argument(metavar="KEY...", help="First characters of conversations' keys, as `ls` lists them."),
]


@command(epilog="Example: mlxctl cache warm request.json")
@with_server
def warm(
    server: "ServerClient",
    file: Annotated[Path, Argument(metavar="FILE", help="A request as JSON; only its prompt is processed.")],
    as_json: AsJson = False,
) -> None:
    """Cache the prompt of a request in advance."""
    from mlxctl.cli.inspector.request_file import read_request

    request = read_request(file)
    server.generate(request.path, request.with_one_token())
    found = server.explain(request.protocol, request.body)[0]
    print_json(found) if as_json else echo(
        f"{found['num_cached_tokens']} of {found['num_prompt_tokens']} tokens are cached now"
    )


@command(epilog="Example: mlxctl cache pin 3fa91c")
@with_cache
def pin(cache: "Cache", keys: Keys, as_json: AsJson = False) -> None:
    """Protect conversations from eviction until they are unpinned."""
    from mlxctl.cli.inspector.branches import find_branch

    trees = cache.trees()
    ends = [chunk.key for key in keys for chunk in find_branch(trees, key)[-1].chunks[-1:]]
    answer = cache.change_chunks("pin", ends)
    print_json(answer) if as_json else echo(f"{answer['num_changed']} pinned")
    if num_left := len(ends) - answer["num_changed"]:
        echo(f"{num_left} not pinned: pinned conversations take at most half of the cache", err=True)
        raise click.exceptions.Exit(1)


@command(epilog="Example: mlxctl cache unpin 3fa91c")
@with_cache
def unpin(cache: "Cache", keys: Keys, as_json: AsJson = False) -> None:
    """Allow the eviction of pinned conversations."""
    from mlxctl.cli.inspector.branches import find_branch

    trees = cache.trees()
    pinned = [chunk.key for key in keys for chunk in find_branch(trees, key)[-1].chunks if chunk.is_pinned]
    answer = cache.change_chunks("unpin", pinned)
    print_json(answer) if as_json else echo(f"{answer['num_changed']} unpinned")


@command(epilog="Example: mlxctl cache gc    or: mlxctl cache gc --disk")
@with_cache
def gc(cache: "Cache", as_json: AsJson = False) -> None:
    """Remove expired entries now.

    On disk also removes corrupt records and what exceeds the size limit.
    """
    _print_removal(cache.change_chunks("gc"), as_json=as_json)


@command(
    epilog="Example: mlxctl cache settings cache_ttl_seconds=3600",
)
@with_server
def settings(
    server: "ServerClient",
    changes: Annotated[
        list[str] | None,
        Argument(
            metavar="[NAME=VALUE...]", offers=NAMES, help="Settings to change, as this command prints them."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show or change the prefix cache's settings of a running server.

    Changes hold until its restart.
    """
    print_settings(server.settings("cache", read_changes(changes or ())), as_json=as_json)


@command(
    epilog="Example: mlxctl cache clear    or: mlxctl cache clear 3fa91c",
)
@with_cache
def clear(
    cache: "Cache",
    keys: Annotated[
        list[str] | None,
        Argument(
            metavar="[KEY]...",
            help="Keys of conversations to remove, with those that continue them; without a key, everything.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Remove entries in memory and on disk.

    Entries in use and pinned ones stay.
    """
    if not keys:
        _print_removal(cache.change_chunks("clear"), as_json=as_json)
        return
    from mlxctl.cli.inspector.branches import find_branch, first_keys

    trees = cache.trees()
    dropped = [first for key in keys for first in first_keys(find_branch(trees, key)[-1])]
    _print_removal(cache.change_chunks("drop", dropped), as_json=as_json)


def _print_removal(answer: Mapping[str, Any], *, as_json: bool) -> None:
    print_json(answer) if as_json else echo(
        f"{answer['num_changed']} chunks dropped, {answer['num_chunks']} left"
    )
