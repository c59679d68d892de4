"""`mlxctl cache ls`, `tree`, `show`, `diff`, `stats` and `explain`."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mlxctl.cli.cache.target import with_cache
from mlxctl.cli.commands import command
from mlxctl.cli.options import AsJson, print_json
from mlxctl.cli.parameters import Argument, Option
from mlxctl.ir.errors import UsageError

if TYPE_CHECKING:
    from mlxctl.cli.cache.target import Cache


@command(
    epilog="Example: mlxctl cache ls    or: mlxctl cache ls --disk",
)
@with_cache
def ls(cache: "Cache", as_json: AsJson = False) -> None:
    """List the cached conversations, the most recently used first."""
    if as_json:
        print_json([chunk.as_dict() for chunk in cache.chunks()])
        return
    from mlxctl.cli.console import console
    from mlxctl.cli.inspector.rendering import branches_table

    console().print(branches_table(cache.trees(), now=time.time()))


@command(
    epilog="Example: mlxctl cache tree --url http://127.0.0.1:8080",
)
@with_cache
def tree(cache: "Cache", as_json: AsJson = False) -> None:
    """Draw which conversations share a prefix, and where they differ."""
    trees = cache.trees()
    if as_json:
        print_json({model: [branch.as_dict() for branch in branches] for model, branches in trees.items()})
        return
    from mlxctl.cli.console import console
    from mlxctl.cli.inspector.rendering import branches_tree

    out = console()
    out.print(branches_tree(trees, now=time.time(), width=out.width))


@command(epilog="Example: mlxctl cache show 3fa91c")
@with_cache
def show(
    cache: "Cache",
    key: Annotated[
        str, Argument(metavar="KEY", help="First characters of a conversation's key, as `ls` lists it.")
    ],
    as_json: AsJson = False,
) -> None:
    """Show one conversation: size, last use, checkpoints and text."""
    from mlxctl.cli.inspector.branches import find_branch

    path = find_branch(cache.trees(), key)
    if as_json:
        print_json([chunk.as_dict() for branch in path for chunk in branch.chunks])
        return
    from mlxctl.cli.console import console
    from mlxctl.cli.inspector.rendering import branch_facts

    console().print(branch_facts(path, now=time.time()))


@command(epilog="Example: mlxctl cache diff 3fa91c 77b0e2")
@with_cache
def diff(
    cache: "Cache",
    one: Annotated[str, Argument(metavar="A", help="First characters of a conversation's key.")],
    other: Annotated[str, Argument(metavar="B", help="Another conversation of the same model.")],
    as_json: AsJson = False,
) -> None:
    """Show how many tokens two conversations share, and where they differ."""
    from mlxctl.cli.inspector.branches import find_branch
    from mlxctl.cli.inspector.comparison import compare

    trees = cache.trees()
    found = compare(find_branch(trees, one), find_branch(trees, other))
    if as_json:
        print_json(found.as_dict())
        return
    from mlxctl.cli.console import console
    from mlxctl.cli.inspector.rendering import comparison

    console().print(comparison(found))


@command(
    epilog="Example: mlxctl cache stats --json    or: mlxctl cache stats --disk",
)
@with_cache
def stats(cache: "Cache", as_json: AsJson = False) -> None:
    """Show hits, saved tokens, sizes and evictions since the server's start.

    Without a server, shows the size of a directory.
    """
    found = cache.stats()
    if as_json:
        print_json({name: value for name, value in found.items() if name.startswith("cache_")})
        return
    from mlxctl.cli.console import console
    from mlxctl.cli.inspector.rendering import counters

    console().print(counters(found))


@command(epilog="Example: mlxctl cache explain --last 5    or: mlxctl cache explain request.json")
@with_cache
def explain(
    cache: "Cache",
    file: Annotated[
        Path | None, Argument(metavar="[FILE]", help="A request as JSON; it is explained, not sent.")
    ] = None,
    last: Annotated[
        int, Option(min=1, max=64, metavar="N", help="The last N requests of the server instead.")
    ] = 1,
    as_json: AsJson = False,
) -> None:
    """Explain why a request hit or missed the cache."""
    from mlxctl.cli.console import console
    from mlxctl.cli.inspector.rendering import disk_explanation, explanations
    from mlxctl.cli.inspector.request_file import read_request
    from mlxctl.cli.server_client import ServerClient

    request = read_request(file) if file is not None else None
    if isinstance(cache, ServerClient):
        found: Any = (
            cache.explain_last(last) if request is None else cache.explain(request.protocol, request.body)
        )
        drawn = explanations(found)
    elif request is None:
        raise UsageError("only a server keeps its last requests; to explain the disk, name a FILE")
    else:
        explanation = cache.explain(request)
        found, drawn = explanation.as_dict(), disk_explanation(explanation)
    print_json(found) if as_json else console().print(drawn)
