"""`mlxctl cache`: what a running server keeps of the prompts it has read. One file per command, imported when it is called."""

from typing import ClassVar

import typer

from mlxctl.cli.lazy import LazyCommand, LazyGroup


class CacheGroup(LazyGroup):
    """The table of commands about the prefix cache."""

    table: ClassVar[dict[str, LazyCommand]] = {
        "ls": LazyCommand("mlxctl.cli.cache.ls", "List the conversations that are kept."),
        "tree": LazyCommand("mlxctl.cli.cache.tree", "Draw what they share and where they part."),
        "show": LazyCommand("mlxctl.cli.cache.show", "Show one branch in full, with its text."),
        "diff": LazyCommand("mlxctl.cli.cache.diff", "Show where two branches part."),
        "stats": LazyCommand("mlxctl.cli.cache.stats", "Count hits, tokens saved, bytes and evictions."),
        "explain": LazyCommand("mlxctl.cli.cache.explain", "Say why so much of a prompt was known and no more."),
        "warm": LazyCommand("mlxctl.cli.cache.warm", "Have a request's prompt read before it is needed."),
        "pin": LazyCommand("mlxctl.cli.cache.pin", "Keep branches, whatever the budget."),
        "unpin": LazyCommand("mlxctl.cli.cache.unpin", "Let pinned branches go when room is needed."),
        "gc": LazyCommand("mlxctl.cli.cache.gc", "Drop what has outlived its time."),
        "verify": LazyCommand("mlxctl.cli.cache.verify", "Check every record on disk."),
        "export": LazyCommand("mlxctl.cli.cache.exporting", "Write what is on disk into one file."),
        "import": LazyCommand("mlxctl.cli.cache.importing", "Take what such a file holds."),
        "clear": LazyCommand("mlxctl.cli.cache.clear", "Drop everything, or branches by their keys."),
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
    """The prefix cache of a running server, or of a directory: look into it, explain misses, pin, clear."""
