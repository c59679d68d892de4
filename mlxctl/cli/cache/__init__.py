"""`mlxctl cache`: what a running server keeps of the prompts it has read. One file per command, imported when it is called."""

from typing import ClassVar

import typer

from mlxctl.cli.lazy import LazyCommand, LazyGroup


class CacheGroup(LazyGroup):
    """The table of commands about the prefix cache."""

    table: ClassVar[dict[str, LazyCommand]] = {
        "ls": LazyCommand("mlxctl.cli.cache.ls", "List the cached conversations."),
        "tree": LazyCommand("mlxctl.cli.cache.tree", "Draw the cached prefixes as a tree."),
        "show": LazyCommand("mlxctl.cli.cache.show", "Show one cached branch with its text."),
        "diff": LazyCommand("mlxctl.cli.cache.diff", "Show where two branches diverge."),
        "stats": LazyCommand("mlxctl.cli.cache.stats", "Show hits, tokens saved, bytes and evictions."),
        "explain": LazyCommand("mlxctl.cli.cache.explain", "Explain why a request hit or missed the cache."),
        "warm": LazyCommand("mlxctl.cli.cache.warm", "Prefill a prompt before it is needed."),
        "pin": LazyCommand("mlxctl.cli.cache.pin", "Protect branches from eviction."),
        "unpin": LazyCommand("mlxctl.cli.cache.unpin", "Allow pinned branches to be evicted."),
        "gc": LazyCommand("mlxctl.cli.cache.gc", "Delete expired entries."),
        "verify": LazyCommand("mlxctl.cli.cache.verify", "Check every record on disk."),
        "export": LazyCommand("mlxctl.cli.cache.exporting", "Export the disk tier to one file."),
        "import": LazyCommand("mlxctl.cli.cache.importing", "Import an exported file."),
        "clear": LazyCommand("mlxctl.cli.cache.clear", "Delete everything, or single branches."),
    }


app = typer.Typer(
    cls=CacheGroup,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    epilog="Example: mlxctl cache tree",
)


@app.callback()
def cache() -> None:
    """Inspect and manage the prefix cache: list, explain misses, pin, clear."""
