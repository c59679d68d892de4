"""The slash commands that continue what is typed."""

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

from mlxctl.chat.chat_commands import ChatCommand

_MAX_LINES = 7
_MAX_COMMANDS = _MAX_LINES - 1
_NAME_COLUMNS = 20


class CommandHints(Static):
    """A line for each command; hidden without any."""

    DEFAULT_CSS = """
    CommandHints { height: auto; padding: 0 1 0 0; display: none; background: $foreground 5%;
        text-wrap: nowrap; text-overflow: ellipsis; }
    """

    def show(self, commands: Sequence[ChatCommand], *, selected: int | None) -> None:
        """Show the commands around the selected one, and how many there are."""
        self.display = bool(commands)
        first = 0
        if len(commands) > _MAX_LINES:
            first = min(max(0, (selected or 0) - _MAX_COMMANDS // 2), len(commands) - _MAX_COMMANDS)
            shown = commands[first : first + _MAX_COMMANDS]
        else:
            shown = commands
        lines = [_line(command, is_selected=first + index == selected) for index, command in enumerate(shown)]
        if len(shown) < len(commands):
            more = f"… {len(commands)} commands; arrows or the next letters choose, Enter runs"
            lines.append(Content.styled(more, "dim"))
        self.update(Content("\n").join(lines))


def _line(command: ChatCommand, *, is_selected: bool) -> Content:
    line = Content.assemble(
        (f"/{command.names[0]}", "bold"),
        f" {command.argument}".ljust(_NAME_COLUMNS - len(command.names[0])),
        (command.help, "" if is_selected else "dim"),
    )
    # A mark, because some terminals have no colors.
    return Content.assemble("> " if is_selected else "  ", line.stylize("reverse") if is_selected else line)
