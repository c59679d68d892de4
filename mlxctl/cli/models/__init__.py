"""`mlxctl models`: what lies on this machine, what can be fetched, what fits.

One file per command, imported when it is called.
"""

from typing import ClassVar

import typer

from mlxctl.cli.lazy import LazyCommand, LazyGroup


class ModelsGroup(LazyGroup):
    """The table of commands about models."""

    table: ClassVar[dict[str, LazyCommand]] = {
        "ls": LazyCommand("mlxctl.cli.models.ls", "List the models on this machine."),
        "info": LazyCommand("mlxctl.cli.models.info", "Show what a model is, without loading it."),
        "fit": LazyCommand(
            "mlxctl.cli.models.fit", "Estimate whether models fit this machine, and their maximum speed."
        ),
        "pull": LazyCommand("mlxctl.cli.models.pull", "Download a model from the Hugging Face hub."),
        "rm": LazyCommand("mlxctl.cli.models.rm", "Delete a model from disk."),
        "alias": LazyCommand("mlxctl.cli.models.alias", "Add a name for a model."),
    }


app = typer.Typer(
    cls=ModelsGroup,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    epilog="Example: mlxctl models ls",
)


@app.callback()
def models() -> None:
    """Manage the models on this machine: list, inspect, download, remove, alias, fit."""
