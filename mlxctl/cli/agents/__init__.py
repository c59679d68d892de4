"""`mlxctl agents`: stored conversations of a running server. One file per command."""

from mlxctl.cli.lazy import LazyCommand, lazy_group

COMMANDS = {
    "ls": LazyCommand("mlxctl.cli.agents.ls", "List the agents of a running server."),
    "show": LazyCommand("mlxctl.cli.agents.show", "Show one agent and its messages."),
    "reset": LazyCommand("mlxctl.cli.agents.reset", "Delete the messages of agents."),
    "rm": LazyCommand("mlxctl.cli.agents.rm", "Delete agents and their messages."),
}
app = lazy_group("agents", COMMANDS, example="mlxctl agents ls")
