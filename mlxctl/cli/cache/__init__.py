"""`mlxctl cache`: the prefix cache of a server or on disk.

One file per command.
"""

from mlxctl.cli.lazy import LazyCommand, lazy_group

COMMANDS = {
    "ls": LazyCommand("mlxctl.cli.cache.ls", "List the cached conversations."),
    "tree": LazyCommand("mlxctl.cli.cache.tree", "Draw which conversations share a prefix."),
    "show": LazyCommand("mlxctl.cli.cache.show", "Show one conversation in full, with its text."),
    "diff": LazyCommand("mlxctl.cli.cache.diff", "Show where two conversations differ."),
    "stats": LazyCommand("mlxctl.cli.cache.stats", "Show hits, saved tokens, sizes and evictions."),
    "explain": LazyCommand("mlxctl.cli.cache.explain", "Explain why a request hit or missed the cache."),
    "warm": LazyCommand("mlxctl.cli.cache.warm", "Cache the prompt of a request in advance."),
    "pin": LazyCommand("mlxctl.cli.cache.pin", "Protect conversations from eviction."),
    "unpin": LazyCommand("mlxctl.cli.cache.unpin", "Allow the eviction of pinned conversations."),
    "gc": LazyCommand("mlxctl.cli.cache.gc", "Remove expired entries."),
    "verify": LazyCommand("mlxctl.cli.cache.verify", "Check every record on disk."),
    "export": LazyCommand("mlxctl.cli.cache.exporting", "Export the records on disk to one file."),
    "import": LazyCommand("mlxctl.cli.cache.importing", "Import the records of an exported file."),
    "settings": LazyCommand(
        "mlxctl.cli.cache.settings", "Show or change the prefix cache's settings of a running server."
    ),
    "clear": LazyCommand("mlxctl.cli.cache.clear", "Remove everything, or conversations by their keys."),
}
app = lazy_group("cache", COMMANDS, example="mlxctl cache tree")
