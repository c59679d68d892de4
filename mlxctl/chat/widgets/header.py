"""The first line: the model and the chat's title."""

from textual.widgets import Static

from mlxctl.terminal_text import escape_line


class ChatHeader(Static):
    """Model and title of the chat; hidden on low terminals."""

    DEFAULT_CSS = """
    ChatHeader { dock: top; height: 1; padding: 0 1; background: $surface; color: $text-muted;
        text-wrap: nowrap;
        text-overflow: ellipsis; }
    """

    def __init__(self) -> None:
        super().__init__(id="header", markup=False)
        self._shown = ""

    def show(self, model: str, title: str) -> None:
        """Show model and title; no redraw when unchanged."""
        text = escape_line(f"mlxctl chat  {model}  {title}".rstrip())
        if text != self._shown:
            self._shown = text
            self.update(text)
