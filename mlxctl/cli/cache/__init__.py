"""`mlxctl cache`: the prefix cache of a running server, or on disk."""

from mlxctl.cli.commands import LazyCommand, lazy_group

COMMANDS = {
    "ls": LazyCommand("mlxctl.cli.cache.conversations:ls", "List the cached conversations."),
    "tree": LazyCommand("mlxctl.cli.cache.conversations:tree", "Draw which conversations share a prefix."),
    "show": LazyCommand(
        "mlxctl.cli.cache.conversations:show", "Show one conversation in full, with its text."
    ),
    "diff": LazyCommand("mlxctl.cli.cache.conversations:diff", "Show where two conversations differ."),
    "stats": LazyCommand(
        "mlxctl.cli.cache.conversations:stats", "Show hits, saved tokens, sizes and evictions."
    ),
    "explain": LazyCommand(
        "mlxctl.cli.cache.conversations:explain", "Explain why a request hit or missed the cache."
    ),
    "warm": LazyCommand("mlxctl.cli.cache.changes:warm", "Cache the prompt of a request in advance."),
    "pin": LazyCommand("mlxctl.cli.cache.changes:pin", "Protect conversations from eviction."),
    "unpin": LazyCommand("mlxctl.cli.cache.changes:unpin", "Allow the eviction of pinned conversations."),
    "gc": LazyCommand("mlxctl.cli.cache.changes:gc", "Remove expired entries."),
    "verify": LazyCommand("mlxctl.cli.cache.records:verify", "Check every record on disk."),
    "export": LazyCommand("mlxctl.cli.cache.records:export", "Export the records on disk to one file."),
    "import": LazyCommand(
        "mlxctl.cli.cache.records:import_records", "Import the records of an exported file."
    ),
    "settings": LazyCommand(
        "mlxctl.cli.cache.changes:settings",
        "Show or change the prefix cache's settings of a running server.",
    ),
    "clear": LazyCommand(
        "mlxctl.cli.cache.changes:clear", "Remove everything, or conversations by their keys."
    ),
}
app = lazy_group("cache", COMMANDS, example="mlxctl cache tree")
