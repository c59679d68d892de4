"""`mlxctl agents`: conversations that live in a running server. One file per command, imported when it is called."""

from typing import ClassVar

import typer

from mlxctl.cli.lazy import LazyCommand, LazyGroup


class AgentsGroup(LazyGroup):
    """The table of commands about agents."""

    table: ClassVar[dict[str, LazyCommand]] = {
        "ls": LazyCommand("mlxctl.cli.agents.ls", "List the agents of a running server."),
        "show": LazyCommand("mlxctl.cli.agents.show", "Show one agent, and what was said."),
        "reset": LazyCommand("mlxctl.cli.agents.reset", "Have agents begin anew: what was said is forgotten."),
        "rm": LazyCommand("mlxctl.cli.agents.rm", "Delete agents, with all that was said."),
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
    """The agents of a running server, whose histories it keeps: list, show, reset, delete."""
