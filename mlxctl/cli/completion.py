"""`mlxctl completion`: scripts for shells.

A script calls `mlxctl` at each TAB with `_MLXCTL_COMPLETE`, as click defines it.
"""

from pathlib import Path

from mlxctl.cli.commands import group
from mlxctl.terminal_text import echo

_SCRIPTS = Path(__file__).with_name("completions")

app = group("completion", example="source <(mlxctl completion bash)")


@app.command(epilog="Example, for ~/.bashrc: source <(mlxctl completion bash)")
def bash() -> None:
    """Print the script for bash."""
    _print_script("bash")


@app.command(epilog="Example, for ~/.zshrc after compinit: source <(mlxctl completion zsh)")
def zsh() -> None:
    """Print the script for zsh."""
    _print_script("zsh")


@app.command(epilog="Example: mlxctl completion fish > ~/.config/fish/completions/mlxctl.fish")
def fish() -> None:
    """Print the script for fish."""
    _print_script("fish")


def _print_script(shell: str) -> None:
    echo((_SCRIPTS / f"mlxctl.{shell}").read_text(encoding="utf-8"), end="")
