"""The saved chats beside the conversation, on wide terminals (F9)."""

import time

from rich.cells import cell_len, set_cell_size
from textual import events, on, work
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from mlxctl.chat.messages import TextTyped
from mlxctl.chat.session_autosave import SavedChat, SessionAutosave
from mlxctl.ir.errors import StoreError
from mlxctl.state.stores import SessionSummary
from mlxctl.terminal_text import escape_line

_COLUMNS = 34
_TITLE_COLUMNS = _COLUMNS - 4
# F3 searches in all of them.
_MAX_SHOWN = 100


class ChatSidebar(OptionList):
    """The latest chats; Enter opens one.

    Letters go to the input.
    """

    DEFAULT_CSS = f"""
    ChatSidebar {{ dock: left; width: {_COLUMNS}; height: 100%; margin: 1 0; padding: 0 1; display: none;
        border: none; border-right: vkey $foreground 20%; background: transparent; scrollbar-size-vertical: 1;
        &:focus {{ border: none; border-right: vkey $primary; background: transparent; }} }}
    """
    BINDINGS = [Binding("escape", "screen.close_messages", "Back")]  # noqa: RUF012 -- Textual API

    class Chosen(Message):
        """A chat was chosen, to be continued."""

        def __init__(self, chat: SavedChat) -> None:
            super().__init__()
            self.chat = chat

    def __init__(self, autosave: SessionAutosave) -> None:
        super().__init__(id="sidebar")
        self._autosave = autosave

    @work(group="sidebar", exclusive=True)
    async def reload(self) -> None:
        """List the chats again, while they are shown."""
        if not self.display:
            return
        try:
            found = await self._autosave.search()
        except StoreError as error:
            self._show([Option(escape_line(str(error)), disabled=True)])
            return
        current = self._autosave.chat_id
        options = [
            Option(_lines(summary, is_current=summary.id == current), id=summary.id)
            for summary in found[:_MAX_SHOWN]
        ]
        self._show(options or [Option("No saved chats yet.", disabled=True)])

    def _show(self, options: list[Option]) -> None:
        """Show options; the highlighted chat stays highlighted."""
        before = self.highlighted_option
        self.clear_options()
        self.add_options(options)
        ids = [option.id for option in options]
        self.highlighted = ids.index(before.id) if before is not None and before.id in ids else None

    def on_focus(self) -> None:
        """Highlight the first chat, where none is."""
        if self.highlighted is None:
            self.action_first()

    def on_key(self, event: events.Key) -> None:
        """Take letters for the input, which the user means then."""
        if event.is_printable and event.character and event.character != " ":
            event.stop()
            self.post_message(TextTyped(event.character))

    @on(OptionList.OptionSelected)
    def choose(self, selected: OptionList.OptionSelected) -> None:
        """Load the chat."""
        selected.stop()
        self._load_chat(selected.option_id or "")

    @work(group="sidebar-open", exclusive=True)
    async def _load_chat(self, chat_id: str) -> None:
        try:
            self.post_message(self.Chosen(await self._autosave.load(chat_id)))
        except StoreError as error:
            self.app.notify(str(error), severity="warning", markup=False)


def _lines(summary: SessionSummary, *, is_current: bool) -> Content:
    """Return title and time of a chat.

    The current one has a mark.
    """
    title = escape_line(summary.title)
    columns = _TITLE_COLUMNS - 2 * is_current
    if cell_len(title) > columns:
        title = f"{set_cell_size(title, columns - 1).rstrip()}…"
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(summary.used_at))
    messages = f"{summary.num_messages} message{'s' * (summary.num_messages != 1)}"
    return Content.assemble(
        "● " if is_current else "",
        (title, "bold" if is_current else ""),
        "\n",
        (f"{when}  {messages}", "dim"),
    )
