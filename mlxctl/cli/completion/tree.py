"""The command line as pure values: every command with its options and what can follow them.

Imports all commands.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args, get_type_hints

import typer
from typer.core import TyperGroup

from mlxctl.settings import ServerSettings

# What a value may be, told from the word that stands for it on the help page.
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
_WORDS = {"LEVEL": " ".join(get_args(get_type_hints(ServerSettings)["log_level"]))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """What completes a value: models, agents, files, directories, words (with the `words` themselves), or
    nothing that is known.
    """

    kind: str
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option with all its spellings; `value` is None for a flag."""

    names: tuple[str, ...]
    help: str
    value: Value | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command: `path` is what is typed after `mlxctl`.

    A group has `children`, another one may take an `argument`.
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


def read_tree() -> tuple[Command, ...]:
    """Return all commands, the first being `mlxctl` itself with an empty path; parents before children."""
    from mlxctl.cli import app

    return tuple(_walk(typer.main.get_command(app), ""))


def _walk(command: Any, path: str) -> Iterator[Command]:
    children: tuple[str, ...] = (
        tuple(command.list_commands(typer.Context(command))) if isinstance(command, TyperGroup) else ()
    )
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = tuple(
        _option(parameter) for parameter in command.params if parameter.param_type_name == "option"
    )
    help_option = Option(names=("--help", "-h"), help="Show this message and exit.", value=None)
    yield Command(
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
    """Return the beginning of a help text, short enough for a list."""
    line = " ".join(text.split("\n\n")[0].split())
    for mark in ("; ", ": ", ". ", ", "):
        if len(line) > _MAX_HELP:
            line = line.partition(mark)[0]
    return line.partition(" [default")[0].rstrip(".")[:_MAX_HELP]


_MAX_HELP = 72
