"""`mlxctl audit`: the audit log of this machine. One file per command."""

from mlxctl.cli.lazy import LazyCommand, lazy_group

COMMANDS = {
    "tail": LazyCommand("mlxctl.cli.audit.tail", "Show the last audit records."),
    "search": LazyCommand("mlxctl.cli.audit.search", "Search audit records by time, key, model and status."),
    "prune": LazyCommand("mlxctl.cli.audit.prune", "Delete audit records past the retention time or size."),
}
app = lazy_group("audit", COMMANDS, example="mlxctl audit tail")
