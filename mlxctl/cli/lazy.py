"""Typer apps of commands and groups, and the table of commands.

A help page of a group reads only its table, so no command is imported for it.
"""

import difflib
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup


class LazyCommand(NamedTuple):
    """The module of a command and its line on the help page.

    The module has a Typer `app`.
    """

    module: str
    summary: str


COMMANDS = {
    "serve": LazyCommand("mlxctl.cli.serve", "Serve models over OpenAI- and Anthropic-compatible APIs."),
    "chat": LazyCommand("mlxctl.cli.chat", "Chat with a model in the terminal."),
    "run": LazyCommand("mlxctl.cli.run", "Answer one prompt, or chat; downloads the model if needed."),
    "launch": LazyCommand("mlxctl.cli.launch.commands", "Start a coding agent with a model of this machine."),
    "service": LazyCommand("mlxctl.cli.service.commands", "Run the server in the background, from login on."),
    "logs": LazyCommand("mlxctl.cli.logs", "Print the log of the server in the background."),
    "top": LazyCommand("mlxctl.cli.top", "Monitor a running server: speed, queue, batch, cache, requests."),
    "cancel": LazyCommand("mlxctl.cli.cancel", "Cancel a request of a running server."),
    "models": LazyCommand(
        "mlxctl.cli.models",
        "Manage models: find, download, inspect, fit; load and unload in a running server.",
    ),
    "probe": LazyCommand("mlxctl.cli.probe", "Test what models can do by generating, and store the results."),
    "cache": LazyCommand(
        "mlxctl.cli.cache", "Inspect and manage the prefix cache: list, explain misses, pin, clear."
    ),
    "agents": LazyCommand(
        "mlxctl.cli.agents", "Manage the agents of a running server: list, show, reset, delete."
    ),
    "adapters": LazyCommand("mlxctl.cli.adapters", "LoRA adapters of a running server."),
    "admin": LazyCommand("mlxctl.cli.admin", "Manage API keys, rate limits and guardrails."),
    "audit": LazyCommand("mlxctl.cli.audit", "Show, search and prune the audit log of this machine."),
    "scheduler": LazyCommand("mlxctl.cli.scheduler", "The scheduler's settings of a running server."),
    "bench": LazyCommand("mlxctl.cli.bench", "Benchmark a server, or two servers side by side."),
    "config": LazyCommand("mlxctl.cli.config", "Create the settings file, and show the settings in effect."),
    "doctor": LazyCommand("mlxctl.cli.doctor.commands", "Check this installation, and suggest fixes."),
    "completion": LazyCommand("mlxctl.cli.completion", "Print a shell completion script."),
}


_VALUE_NAMES: dict[object, str] = {int: "N", float: "X", Path: "PATH", str: "TEXT"}

# Typer raises a copy of Click's UsageError that it does not export.
_UsageError: Any = typer.BadParameter.__base__
# Below it, names have only a few letters in common.
_MIN_LIKENESS = 0.7
# Words of other tools for commands.
_SAME_AS = {"list": "ls", "delete": "rm", "remove": "rm", "download": "pull", "show": "info"}
_TOO_MANY = "Got unexpected extra argument(s) "


@contextmanager
def _suggesting_fixes() -> Iterator[None]:
    """Name the fix in errors for unknown options and extra arguments.

    Typer lists all similar options, and only the arguments.
    """
    try:
        yield
    except _UsageError as error:
        if error.message.startswith(_TOO_MANY):
            error.message = _describe_extra(error.ctx, error.message.removeprefix(_TOO_MANY))
        if possibilities := getattr(error, "possibilities", None):
            # Every name begins with dashes, which are no likeness.
            names = {each.lstrip("-"): each for each in possibilities}
            asked = error.option_name.lstrip("-")
            if close := difflib.get_close_matches(asked, names, n=1, cutoff=_MIN_LIKENESS):
                error.message = f"{error.message}. Did you mean {names[close[0]]}?"
            error.possibilities = ()
        raise


def _describe_extra(context: Any, extra: str) -> str:
    """Return the error for arguments that a command does not take.

    `extra` is their list in parentheses.
    """
    arguments = [each for each in context.command.params if each.param_type_name == "argument"]
    if not arguments:
        return f"{context.command_path} takes only options, not {extra[1:-1]!r}"
    last = arguments[-1].metavar
    fix = f"; put {last} in quotes" if last == "PROMPT" else ""
    return f"{context.command_path} takes nothing after {last}, but there is {extra[1:-1]!r}{fix}"


def _parameters(get_params: Any, context: Any) -> list[Any]:
    """Return a command's parameters, which convert values only if necessary.

    PERF: to convert a value Typer imports Pydantic, which takes a tenth of a second.
    """
    parameters: list[Any] = get_params(context)
    for parameter in parameters:
        if "process_value" not in vars(parameter):
            parameter.process_value = partial(_process_value, parameter, parameter.process_value)
            shown = _VALUE_NAMES.get(_annotation(parameter))
            if parameter.param_type_name == "argument":
                parameter.get_usage_pieces = partial(_usage_pieces, parameter)
                parameter.display_type_rich = partial(_display_type, None)
            elif parameter.metavar is None and not parameter.is_flag and shown is not None:
                parameter.display_type_rich = partial(_display_type, shown)
    return parameters


def _usage_pieces(argument: Any, context: Any) -> list[str]:  # noqa: ARG001 -- Typer API
    """Return an argument as most programs show it; Typer would write `{NAME...}...`."""
    name = argument.display_name_raw.strip("[].")
    dots = "..." if argument.nargs != 1 else ""
    return [f"{name}{dots}" if argument.required else f"[{name}{dots}]"]


def _display_type(shown: str | None, ctx: Any) -> str | None:  # noqa: ARG001 -- Typer API
    """Return the name of a value; Typer would write `<int range>`."""
    return shown


def _annotation(parameter: Any) -> object:
    """Return the type of a parameter; None where Typer does not tell."""
    return getattr(getattr(parameter, "type_descriptor", None), "annotation", None)


def _process_value(parameter: Any, process: Any, context: Any, value: Any) -> Any:
    """Return the value of a parameter.

    Typer converts it, unless it is missing, or a string of ASCII characters for a parameter of type str.
    """
    if value is None and not parameter.required:
        value = () if parameter.multiple or parameter.nargs == -1 else None
    else:
        if not (_annotation(parameter) is str and isinstance(value, str) and value.isascii()):
            return process(context, value)
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


def shown_commands(group: TyperGroup, context: Any) -> Iterator[str]:
    """Yield the names of the commands that help lists.

    Imports all of them.
    """
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None and not command.hidden:
            yield name


class SuggestingGroup(TyperGroup):
    """A group whose errors name the closest known command or option."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _parameters(super().get_params, ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _suggesting_fixes():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with _suggesting_fixes():
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Return the command that `args` names.

        An unknown one is a usage error.
        """
        names = self.list_commands(ctx)
        if args and args[0] not in names:
            close = self._find_same(ctx, args[0], names) or difflib.get_close_matches(
                args[0], names, n=1, cutoff=_MIN_LIKENESS
            )
            hint = (
                f"Did you mean {' or '.join(map(repr, close))}?"
                if close
                else f"There are {', '.join(shown_commands(self, ctx))}."
            )
            ctx.fail(f"No such command {args[0]!r}. {hint}")
        found: tuple[Any, Any, list[str]] = super().resolve_command(ctx, args)
        command = found[1]
        if not isinstance(command, SuggestingGroup):
            command.get_params = partial(_parameters, command.get_params)
        return found

    def _find_same(self, ctx: Any, name: str, names: list[str]) -> list[str]:
        """Return the commands that `name` means.

        Of this group, of others, or under another word.
        """
        word = _SAME_AS.get(name, name)
        if word in names:
            return [word]
        whole = ctx.find_root()
        found = self._find_in_groups(ctx, word)
        if not found and ctx is not whole and name in whole.command.list_commands(whole):
            found = [f"{whole.info_name} {name}"]
        return found

    def _find_in_groups(self, ctx: Any, name: str) -> list[str]:
        """Return the commands of this name in groups, such as `models pull`."""
        groups = {each: self.get_command(ctx, each) for each in self.list_commands(ctx)}
        return [
            f"{each} {name}"
            for each, group in groups.items()
            if isinstance(group, TyperGroup) and name in group.list_commands(ctx)
        ]


class GroupedCommand(TyperCommand):
    """A command whose help lists options under the headings of their `rich_help_panel`."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            is_argument = parameter.param_type_name == "argument"
            heading = "Arguments" if is_argument else parameter.rich_help_panel or "Options"  # type: ignore[attr-defined]
            if record := parameter.get_help_record(ctx):
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


class LazyGroup(SuggestingGroup):
    """A group that imports a command only when it is needed.

    To call it, or to show its own help.
    """

    table: ClassVar[dict[str, LazyCommand]] = COMMANDS

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Return the names in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Import and return a command; None for an unknown name."""
        if cmd_name not in self.table:
            return None
        command = typer.main.get_command(importlib.import_module(self.table[cmd_name].module).app)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in self.table.items()])


def create_app(*, cls: type[TyperGroup] = SuggestingGroup, **options: Any) -> typer.Typer:
    """Return a Typer app with mlxctl's defaults and these options."""
    # The scripts of `mlxctl completion` are faster than Typer's.
    return typer.Typer(
        cls=cls, rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False, **options
    )


def lazy_group(name: str, table: dict[str, LazyCommand], *, example: str) -> typer.Typer:
    """Return the app of the group `mlxctl NAME`, with these commands."""
    group = type("TableGroup", (LazyGroup,), {"table": table})
    app = create_app(cls=group, no_args_is_help=True, epilog=f"Example: {example}")
    app.callback(help=COMMANDS[name].summary)(lambda: None)
    return app
