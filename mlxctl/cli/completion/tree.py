"""The tree of commands with options and arguments, as plain values.

Imports all commands.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args, get_type_hints

import typer
from typer.core import TyperGroup

from mlxctl.cli.launch.clients import CLIENTS
from mlxctl.cli.lazy import shown_commands
from mlxctl.library.conversion.mlx_lm_conversion import DTYPES, RECIPES
from mlxctl.state.settings import EngineSettings, ServerSettings

# Kind of completion by the metavar of an option.
_KINDS = {
    "MODEL": "models",
    "AGENT": "agents",
    "AGENT...": "agents",
    "FILE": "files",
    "PATH": "files",
    "DIRECTORY": "directories",
}
_ARGUMENT_KINDS = _KINDS | {
    "NAME": "models",
    "NAME...": "models",
    "TARGET": "models",
    "A": "files",
    "B": "files",
    "[FILE...]": "files",
}
_WORDS = {
    "BITS": " ".join(get_args(get_type_hints(EngineSettings)["prefix_cache_bits"])),
    "CLIENT": " ".join(CLIENTS),
    "LEVEL": " ".join(get_args(get_type_hints(ServerSettings)["log_level"])),
    "RECIPE": " ".join(RECIPES),
    "DTYPE": " ".join(DTYPES),
    "FORMAT": " ".join(get_args(get_type_hints(ServerSettings)["log_format"])),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """How a value is completed.

    `kind` is models, agents, files, directories, unknown, or words (listed in `words`).
    """

    kind: str
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option with all its names; `value` is None for a flag."""

    names: tuple[str, ...]
    help: str
    value: Value | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpec:
    """A command, or a group with `children`.

    `path` is the words after `mlxctl`.
    """

    path: str
    help: str
    options: tuple[Option, ...]
    children: tuple[str, ...]
    argument: Value | None

    @property
    def name(self) -> str:
        """The last word of the path."""
        return self.path.rpartition(" ")[2]


def read_tree() -> tuple[CommandSpec, ...]:
    """Return all commands that help lists, parents first.

    The path of `mlxctl` itself is empty.
    """
    from mlxctl.cli import app

    return tuple(_walk(typer.main.get_command(app), ""))


def _walk(command: Any, path: str) -> Iterator[CommandSpec]:
    children = (
        tuple(shown_commands(command, typer.Context(command))) if isinstance(command, TyperGroup) else ()
    )
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = tuple(
        _option(parameter) for parameter in command.params if parameter.param_type_name == "option"
    )
    help_option = Option(names=("--help", "-h"), help="Show this message and exit.", value=None)
    yield CommandSpec(
        path=path,
        help=first_sentence(command.help or ""),
        options=(*options, help_option),
        children=children,
        argument=_value(arguments[0].metavar, _ARGUMENT_KINDS) if arguments else None,
    )
    for name in children:
        yield from _walk(command.get_command(None, name), f"{path} {name}".strip())


def _option(parameter: Any) -> Option:
    value = None if parameter.is_flag else _value(parameter.metavar, _KINDS)
    return Option(
        names=(*parameter.opts, *parameter.secondary_opts),
        help=first_sentence(parameter.help or ""),
        value=value,
    )


def _value(metavar: str | None, kinds: dict[str, str]) -> Value:
    words = _WORDS.get(metavar or "")
    return Value(kind="words", words=words) if words else Value(kind=kinds.get(metavar or "", "unknown"))


def first_sentence(text: str) -> str:
    """Return the first sentence of a help text, shortened for a list."""
    line = " ".join(text.split("\n\n")[0].split())
    for mark in ("; ", ": ", ". ", ", "):
        if len(line) > _MAX_HELP:
            line = line.partition(mark)[0]
    return line.partition(" [default")[0].rstrip(".")[:_MAX_HELP]


_MAX_HELP = 72
