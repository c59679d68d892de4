"""`mlxctl completion`: scripts for shells.

They know every command and option by themselves and ask only for what changes.
"""

import typer

from mlxctl.cli.lazy import SuggestingGroup

app = typer.Typer(
    cls=SuggestingGroup,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    epilog="Example: source <(mlxctl completion bash)",
)


@app.callback()
def completion() -> None:
    """Print a shell completion script."""


@app.command(epilog="Example, for ~/.bashrc: source <(mlxctl completion bash)")
def bash() -> None:
    """Print the script for bash."""
    _print("bash")


@app.command(epilog="Example, for ~/.zshrc after compinit: source <(mlxctl completion zsh)")
def zsh() -> None:
    """Print the script for zsh."""
    _print("zsh")


@app.command(epilog="Example: mlxctl completion fish > ~/.config/fish/completions/mlxctl.fish")
def fish() -> None:
    """Print the script for fish."""
    _print("fish")


@app.command(epilog="Example: mlxctl completion models")
def models() -> None:
    """Print the names and aliases of models, which the scripts ask for."""
    from mlxctl.models.completion_names import offered_names

    typer.echo("\n".join(offered_names()))


@app.command(epilog="Example: mlxctl completion agents")
def agents() -> None:
    """Print the ids of the agents that servers here keep, which the scripts ask for."""
    from mlxctl.locations import agents_file
    from mlxctl.stores.agent_ids import read_agent_ids

    typer.echo("\n".join(read_agent_ids(agents_file())))


def _print(shell: str) -> None:
    from mlxctl.cli.completion.scripts import completion_script

    typer.echo(completion_script(shell), nl=False)
