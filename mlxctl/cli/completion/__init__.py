"""`mlxctl completion`: completion scripts for shells.

A script contains all commands and options; it calls `mlxctl completion models` and `agents` for names.
"""

from mlxctl.cli.lazy import SuggestingGroup, create_app
from mlxctl.terminal_text import echo, echo_words

SHELLS = ("bash", "zsh", "fish")

app = create_app(
    cls=SuggestingGroup,
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


@app.command(hidden=True)
def models() -> None:
    """Print names and aliases of models, for the scripts."""
    from mlxctl.library.library import completion_names

    echo_words(completion_names())


@app.command(hidden=True)
def agents() -> None:
    """Print the ids of stored agents, for the scripts."""
    from mlxctl.state.locations import agents_file
    from mlxctl.state.stores.agent_ids import read_agent_ids

    echo_words(read_agent_ids(agents_file()))


def completion_script(shell: str) -> str:
    """Return the script for one of SHELLS."""
    from mlxctl.cli.completion.bash import bash_script
    from mlxctl.cli.completion.fish import fish_script
    from mlxctl.cli.completion.tree import read_tree
    from mlxctl.cli.completion.zsh import zsh_script

    write = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}[shell]
    return write(read_tree())


def _print(shell: str) -> None:
    echo(completion_script(shell), end="")
