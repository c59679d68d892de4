"""Saved chats (F3, /chats): search, open with Enter, delete with ^D."""

import time

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from mlxctl.chat.session_autosave import SavedChat, SessionAutosave
from mlxctl.chat.widgets.text_input import TextInput
from mlxctl.ir.errors import StoreError
from mlxctl.state.stores import SessionSummary
from mlxctl.terminal_text import escape_control_characters

_MAX_SHOWN = 200


class SessionsScreen(ModalScreen[SavedChat | None]):
    """Returns the chat to continue, or None."""

    DEFAULT_CSS = """
    SessionsScreen { align: center middle;
        & Vertical { width: 96; max-width: 98%; height: 24; max-height: 96%; padding: 0 1;
            border: round $primary;
            background: $surface; border-title-color: $primary; }
        & OptionList { height: 1fr; background: transparent; padding: 0; margin: 1 0 0 0;
            &, &:focus { border: none; } }
        & Static { color: $text-muted; height: auto; } }
    """
    BINDINGS = [  # noqa: RUF012 -- Textual API
        Binding("escape,ctrl+c", "cancel", "Close"),
        Binding("down", "move(1)", show=False, priority=True),
        Binding("up", "move(-1)", show=False, priority=True),
        Binding("delete,ctrl+d", "delete", "Delete", priority=True),
    ]

    def __init__(self, autosave: SessionAutosave) -> None:
        super().__init__()
        self._autosave = autosave
        self._confirmed_id = ""

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "Chats (Enter opens, ^D deletes, Esc closes)"
            yield TextInput(placeholder="Search titles and messages", id="words", compact=True)
            yield OptionList(id="chats")
            yield Static(id="status", markup=False)

    def on_mount(self) -> None:
        """List the latest chats."""
        self._search("")

    @on(Input.Changed)
    def search(self, changed: Input.Changed) -> None:
        """Search after each keystroke."""
        self._search(changed.value)

    @on(Input.Submitted)
    def open_highlighted(self) -> None:
        if (chat_id := self._highlighted()) is not None:
            self._open(chat_id)

    @on(OptionList.OptionSelected)
    def open_selected(self, selected: OptionList.OptionSelected) -> None:
        self._open(selected.option_id or "")

    def action_move(self, step: int) -> None:
        """Move the highlight while the focus stays in the input."""
        chats = self.query_one(OptionList)
        if step > 0:
            chats.action_cursor_down()
        else:
            chats.action_cursor_up()

    def action_cancel(self) -> None:
        self.dismiss(None)

    @work(group="delete", exclusive=True)
    async def action_delete(self) -> None:
        """Delete the highlighted chat at the second press."""
        chat_id = self._highlighted()
        if chat_id is None:
            return
        if self._confirmed_id != chat_id:
            self._confirmed_id = chat_id
            self._set_status("Press again to delete this chat.")
            return
        try:
            await self._autosave.delete(chat_id)
        except StoreError as error:
            self._set_status(str(error))
        else:
            self._search(self.query_one(Input).value)

    @work(group="search", exclusive=True)
    async def _search(self, query: str) -> None:
        try:
            found = await self._autosave.search(query)
        except StoreError as error:
            self._set_status(str(error))
            return
        chats = self.query_one(OptionList)
        chats.clear_options()
        chats.add_options([Option(_line(summary), id=summary.id) for summary in found[:_MAX_SHOWN]])
        if found:
            chats.highlighted = 0
        more = f", the last {_MAX_SHOWN} are shown" if len(found) > _MAX_SHOWN else ""
        self._set_status(
            f"{len(found)} chat{'' if len(found) == 1 else 's'}{more}" if found else self._empty_text(query)
        )

    @work(group="open", exclusive=True)
    async def _open(self, chat_id: str) -> None:
        try:
            self.dismiss(await self._autosave.load(chat_id))
        except StoreError as error:
            self._set_status(str(error))

    def _empty_text(self, query: str) -> str:
        if not self._autosave.is_enabled:
            return "Chats are not saved (--no-save)."
        return "No chat contains these words." if query.strip() else "No saved chats yet."

    def _highlighted(self) -> str | None:
        option = self.query_one(OptionList).highlighted_option
        return None if option is None else option.id

    def _set_status(self, query: str) -> None:
        self.query_one("#status", Static).update(query)


def _line(summary: SessionSummary) -> Content:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(summary.used_at))
    messages = f"{summary.num_messages:>4} message{'' if summary.num_messages == 1 else 's'}"
    details = "  ".join(filter(None, (when, messages, summary.model, summary.id)))
    return Content.assemble((escape_control_characters(summary.title), "bold"), "\n", (details, "dim"))
