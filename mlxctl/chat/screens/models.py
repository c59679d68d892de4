"""Model selection (F4, /model)."""

from collections.abc import Awaitable, Callable, Sequence

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from mlxctl.chat.chat_backend import SelectableModel
from mlxctl.ir.errors import MlxctlError
from mlxctl.terminal_text import escape_line


class ModelsScreen(ModalScreen[str | None]):
    """Returns the name of the chosen model, or None."""

    DEFAULT_CSS = """
    ModelsScreen { align: center middle;
        & Vertical { width: 80; max-width: 98%; height: auto; max-height: 96%; padding: 0 1;
            border: round $primary;
            background: $surface; border-title-color: $primary; }
        & OptionList { height: auto; max-height: 16; background: transparent; padding: 0;
            &, &:focus { border: none; } }
        & Static { color: $text-muted; height: auto; } }
    """
    BINDINGS = [Binding("escape,ctrl+c,f4", "cancel", "Close")]  # noqa: RUF012 -- Textual API

    def __init__(
        self, list_models: Callable[[], Awaitable[Sequence[SelectableModel]]], *, current: str
    ) -> None:
        super().__init__()
        self._list_models = list_models
        self._current = current

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "Choose a model (Enter selects, Esc closes)"
            yield OptionList()
            yield Static("Looking for models …", id="status", markup=False)

    def on_mount(self) -> None:
        """Load the list in a worker."""
        self._load_models()

    @on(OptionList.OptionSelected)
    def choose(self, selected: OptionList.OptionSelected) -> None:
        """Return the name; None for the current model."""
        self.dismiss(None if selected.option_id == self._current else selected.option_id)

    def action_cancel(self) -> None:
        self.dismiss(None)

    @work
    async def _load_models(self) -> None:
        try:
            models = await self._list_models()
        except MlxctlError as error:
            self.query_one("#status", Static).update(str(error))
            return
        options = self.query_one(OptionList)
        options.add_options(
            [Option(self._line(model), id=model.name, disabled=not model.is_usable) for model in models]
        )
        self.query_one("#status", Static).update("The conversation continues with it.")
        names = [model.name for model in models]
        options.highlighted = names.index(self._current) if self._current in names else 0
        options.focus()

    def _line(self, model: SelectableModel) -> Content:
        mark = "● " if model.name == self._current else "  "
        return Content.assemble(mark, (escape_line(model.name), "bold"), (f"  {model.note}", "dim"))
