"""The scripts of all shells.

They call `mlxctl completion models` and `agents` for what changes, and nothing else.
"""

from collections.abc import Callable

from mlxctl.cli.completion.bash import bash_script
from mlxctl.cli.completion.fish import fish_script
from mlxctl.cli.completion.tree import Command, read_tree
from mlxctl.cli.completion.zsh import zsh_script

SCRIPTS: dict[str, Callable[[tuple[Command, ...]], str]] = {
    "bash": bash_script,
    "zsh": zsh_script,
    "fish": fish_script,
}


def completion_script(shell: str) -> str:
    """Return the script of one of SCRIPTS."""
    return SCRIPTS[shell](read_tree())
