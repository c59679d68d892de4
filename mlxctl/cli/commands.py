"""Commands and groups, with errors that name the fix."""

import difflib
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import click

from mlxctl.cli.parameters import HelpedArgument, HelpedOption, read_parameters

_HELP_OPTION = ["-h", "--help"]
# Below it, names have only a few letters in common.
_MIN_LIKENESS = 0.7
# Words of other tools for commands.
_SAME_AS = {"list": "ls", "delete": "rm", "remove": "rm", "download": "pull", "show": "info"}


@contextmanager
def _suggesting_an_option() -> Iterator[None]:
    """Name the closest option in the error for an unknown one."""
    try:
        yield
    except click.NoSuchOption as error:
        # Every name begins with dashes, which are no likeness.
        names = {each.lstrip("-"): each for each in error.possibilities or ()}
        close = _closest(error.option_name.lstrip("-"), list(names))
        hint = f". Did you mean {names[close[0]]}?" if close else ""
        message = f"No such option: {error.option_name}{hint}"
        raise click.NoSuchOption(error.option_name, message, ctx=error.ctx) from None


def _closest(word: str, names: list[str]) -> list[str]:
    return difflib.get_close_matches(word, names, n=1, cutoff=_MIN_LIKENESS)


class Command(click.Command):
    """A command with the options and arguments of its function's signature."""

    # `parse_args` refuses them with the fix.
    allow_extra_args = True

    def __init__(self, name: str | None, *, callback: Any, params: Any = None, **attributes: Any) -> None:
        super().__init__(name, callback=callback, params=params or read_parameters(callback), **attributes)

    def get_help_option_names(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return _HELP_OPTION

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with _suggesting_an_option():
            rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            ctx.fail(self._describe_extra(ctx, " ".join(rest)))
        return rest

    def _describe_extra(self, ctx: click.Context, extra: str) -> str:
        """Return the error for arguments that this command does not take."""
        arguments = [each for each in self.params if isinstance(each, click.Argument)]
        if not arguments:
            return f"{ctx.command_path} takes only options, not {extra!r}"
        last = arguments[-1].metavar
        fix = f"; put {last} in quotes" if last == "PROMPT" else ""
        return f"{ctx.command_path} takes nothing after {last}, but there is {extra!r}{fix}"

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if arguments := [each for each in self.params if isinstance(each, HelpedArgument)]:
            with formatter.section("Arguments"):
                formatter.write_dl([each.get_help_record(ctx) for each in arguments])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for option in (each for each in self.get_params(ctx) if isinstance(each, click.Option)):
            heading = option.heading if isinstance(option, HelpedOption) else "Options"
            if record := option.get_help_record(ctx):
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def command(name: str | None = None, **attributes: Any) -> Callable[[Callable[..., Any]], Command]:
    """Return a decorator that makes a command of a function."""
    return click.command(name, cls=Command, **attributes)


class Group(click.Group):
    """A group of commands whose errors name the closest known command."""

    command_class = Command

    def get_help_option_names(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return _HELP_OPTION

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with _suggesting_an_option():
            return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context | None) -> list[str]:  # noqa: ARG002
        """Return the names in the order of their definition."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that `args` names.

        An unknown one is a usage error.
        """
        names = self.list_commands(ctx)
        if args[0] not in names and not ctx.resilient_parsing:
            close = self._find_same(ctx, args[0], names) or _closest(args[0], names)
            hint = (
                f"Did you mean {' or '.join(map(repr, close))}?"
                if close
                else f"There are {', '.join(names)}."
            )
            ctx.fail(f"No such command {args[0]!r}. {hint}")
        return super().resolve_command(ctx, args)

    def _find_same(self, ctx: click.Context, name: str, names: list[str]) -> list[str]:
        """Return the commands that `name` means.

        Of this group, of others, or under another word.
        """
        word = _SAME_AS.get(name, name)
        if word in names:
            return [word]
        whole = ctx.find_root()
        found = self._find_in_groups(ctx, word)
        if not found and ctx is not whole and name in whole.command.list_commands(whole):  # type: ignore[attr-defined]
            found = [f"{whole.info_name} {name}"]
        return found

    def _find_in_groups(self, ctx: click.Context, name: str) -> list[str]:
        """Return the commands of this name in groups, such as `models pull`."""
        groups = {each: self.get_command(ctx, each) for each in self.list_commands(ctx)}
        return [
            f"{each} {name}"
            for each, group in groups.items()
            if isinstance(group, Group) and name in group.list_commands(ctx)
        ]


class LazyCommand(NamedTuple):
    """A command as `module:name`, and its line on the help page."""

    target: str
    summary: str


class LazyGroup(Group):
    """A group that imports a command only when it is needed.

    To call it, or to show its own help.
    """

    def __init__(self, name: str, table: dict[str, LazyCommand], **attributes: Any) -> None:
        super().__init__(name, **attributes)
        self._table = table

    def list_commands(self, ctx: click.Context | None) -> list[str]:  # noqa: ARG002
        """Return the names in the order of the table."""
        return list(self._table)

    def get_command(self, ctx: click.Context | None, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return a command; None for an unknown name."""
        if cmd_name not in self._table:
            return None
        target, summary = self._table[cmd_name]
        module, _, attribute = target.partition(":")
        found: click.Command = getattr(importlib.import_module(module), attribute)
        found.name = cmd_name
        found.help = found.help or summary
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in self._table.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        return [
            *(
                CompletionItem(name, help=command.summary)
                for name, command in self._table.items()
                if name.startswith(incomplete)
            ),
            *click.Command.shell_complete(self, ctx, incomplete),
        ]


def group(name: str, *, example: str, **attributes: Any) -> Group:
    """Return a group without commands; a table may have its help."""
    return Group(name, epilog=f"Example: {example}", no_args_is_help=True, **attributes)


def lazy_group(name: str, table: dict[str, LazyCommand], *, example: str) -> LazyGroup:
    """Return the group of these commands; the root's table has its help."""
    return LazyGroup(name, table, epilog=f"Example: {example}", no_args_is_help=True)
