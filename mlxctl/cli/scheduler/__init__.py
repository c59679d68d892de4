"""`mlxctl scheduler`: the scheduler's settings of a running server.

One file per command.
"""

from mlxctl.cli.lazy import LazyCommand, lazy_group

COMMANDS = {
    "show": LazyCommand("mlxctl.cli.scheduler.show", "Show the scheduler's settings of a running server."),
    "set": LazyCommand("mlxctl.cli.scheduler.set", "Change the scheduler's settings of a running server."),
}
app = lazy_group("scheduler", COMMANDS, example="mlxctl scheduler show")
