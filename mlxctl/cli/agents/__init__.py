"""`mlxctl agents`: conversations that live in a running server.

One file per command, imported when it is called.
"""

from typing import ClassVar

import typer

from mlxctl.cli.lazy import LazyCommand, LazyGroup


class AgentsGroup(LazyGroup):
    """The table of commands about agents."""

    table: ClassVar[dict[str, LazyCommand]] = {
        "ls": LazyCommand("mlxctl.cli.agents.ls", "List the agents of a running server."),
        "show": LazyCommand("mlxctl.cli.agents.show", "Show one agent and its messages."),
        "reset": LazyCommand("mlxctl.cli.agents.reset", "Delete the messages of agents."),
        "rm": LazyCommand("mlxctl.cli.agents.rm", "Delete agents and their messages."),
    }


app = typer.Typer(
    cls=AgentsGroup,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    epilog="Example: mlxctl agents ls",
)


@app.callback()
def agents() -> None:
    """Manage the agents of a running server: list, show, reset, delete."""
