"""The slash commands that continue what is typed."""

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

from mlxctl.tui.chat_commands import ChatCommand

_MAX_LINES = 7
_NAME_COLUMNS = 20


class CommandHints(Static):
    """A line for each command; hidden without any."""

    DEFAULT_CSS = """
    CommandHints { height: auto; padding: 0 1 0 2; display: none; background: $foreground 5%;
        text-wrap: nowrap; text-overflow: ellipsis; }
    """

    def show(self, commands: Sequence[ChatCommand]) -> None:
        """Show the first commands and how many are left."""
        self.display = bool(commands)
        shown = commands if len(commands) <= _MAX_LINES else commands[: _MAX_LINES - 1]
        lines = [
            Content.assemble(
                (f"/{command.names[0]}", "bold"),
                f" {command.argument}".ljust(_NAME_COLUMNS - len(command.names[0])),
                (command.help, "dim"),
            )
            for command in shown
        ]
        if len(shown) < len(commands):
            more = f"… and {len(commands) - len(shown)} more; the next letters choose, Tab completes"
            lines.append(Content.styled(more, "dim"))
        self.update(Content("\n").join(lines))
