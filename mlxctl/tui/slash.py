"""Read what was sent from the input: a question, or a slash command. Pure."""

import re
from dataclasses import dataclass

from mlxctl.tui.keys import COMMANDS, Command

# `/usr/bin/x` and `/* x */` are text; only a lone word can be a command.
_WORD = re.compile(r"/(\?|[A-Za-z][\w-]*)(?!\S)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlashCommand:
    """A command and what follows its name."""

    command: Command
    argument: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownCommand:
    """A word that looks like a command and is none; `message` says what can be done."""

    message: str


def read_input(text: str) -> str | SlashCommand | UnknownCommand:
    """Return the question, or the command; `//word` is the question `/word`."""
    if text.startswith("//") and _WORD.match(text, 1):
        return text[1:]
    match = _WORD.match(text)
    if match is None:
        return text
    command = find_command(match[1])
    if command is None:
        return UnknownCommand(
            message=f"Unknown command /{match[1]}. /help lists the commands; //{match[1]} sends the text."
        )
    argument = text[match.end() :].strip()
    if argument and not command.argument:
        return UnknownCommand(message=f"/{match[1]} takes no argument. //{match[1]} sends the text.")
    return SlashCommand(command=command, argument=argument)


def find_command(name: str) -> Command | None:
    """Return the command with this slash name."""
    return next((command for command in COMMANDS if name.lower() in command.names), None)


def completions(text: str) -> list[str]:
    """Return the slash commands that begin with `text`, without aliases."""
    if not re.fullmatch(r"/[\w?-]*", text):
        return []
    return [
        f"/{command.names[0]}"
        for command in COMMANDS
        if command.names and f"/{command.names[0]}".startswith(text.lower())
    ]
