"""Approval of a tool call that acts outside the chat."""

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from mlxctl.chat.messages import InterruptPressed
from mlxctl.chat.screens.tool_call import readable_arguments
from mlxctl.chat.tools.toolbox import Decision, Tool
from mlxctl.ir import ToolCallPart
from mlxctl.terminal_text import escape_invisible_characters


class ToolApprovalScreen(ModalScreen[Decision]):
    """Returns what the user decided about the call.

    SEC: the dialog may open while the user types a question, so that Enter refuses and no letter agrees.
    """

    AUTO_FOCUS = "#refuse"
    DEFAULT_CSS = """
    ToolApprovalScreen { align: center middle;
        & > Vertical { width: 76; max-width: 98%; height: auto; max-height: 98%; padding: 0 2;
            border: round $warning;
            background: $surface; border-title-color: $text-warning; }
        & VerticalScroll { height: auto; max-height: 12; margin: 1 0; }
        & #caution { color: $text-warning; margin: 0 0 1 0; }
        & Horizontal { height: 1; }
        & Button { margin: 0 2 0 0; }
        & .hint { color: $text-muted; margin: 1 0 0 0; } }
    """
    BINDINGS = [  # noqa: RUF012 -- Textual API
        Binding("escape", "refuse", "Refuse"),
        Binding("ctrl+y", "agree", "Run"),
        Binding("ctrl+c", "stop_answer", show=False),
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
        Binding("pageup,up", "scroll(-1)", show=False),
        Binding("pagedown,down", "scroll(1)", show=False),
    ]

    def __init__(self, call: ToolCallPart, tool: Tool) -> None:
        super().__init__()
        self._call = call
        self._tool = tool
        self._caution = tool.caution(call)

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            # Content instead of str: a tool name may contain markup.
            box.border_title = Content(f"Run {escape_invisible_characters(self._call.name)}?")
            yield Static(
                f"The model calls a tool of {escape_invisible_characters(self._tool.origin)}.", markup=False
            )
            with VerticalScroll(can_focus=False):
                yield Static(readable_arguments(self._call.arguments), markup=False)
            if self._caution is not None:
                yield Static(escape_invisible_characters(self._caution), id="caution", markup=False)
            with Horizontal():
                yield Button("Refuse", id="refuse", compact=True)
                yield Button("Run", id="run", variant="warning", compact=True)
                if self._caution is None:
                    yield Button("Always run it", id="always", variant="warning", compact=True)
            yield Static("^Y runs it. Tab chooses, Enter confirms, Esc refuses, ^C stops.", classes="hint")

    def on_mount(self) -> None:
        """Tell about arguments that need scrolling."""
        self.call_after_refresh(self._show_scroll_hint)

    def _show_scroll_hint(self) -> None:
        if self.query_one(VerticalScroll).max_scroll_y > 0:
            hint = "PgDn shows the rest. ^Y runs it. Tab chooses, Enter confirms, Esc refuses, ^C stops."
            self.query_one(".hint", Static).update(hint)

    def action_scroll(self, pages: int) -> None:
        """Scroll the arguments."""
        arguments = self.query_one(VerticalScroll)
        arguments.scroll_relative(y=pages * max(arguments.size.height - 1, 1), animate=False)

    @on(Button.Pressed, "#run")
    def action_agree(self) -> None:
        self.dismiss("run")

    @on(Button.Pressed, "#always")
    def allow(self) -> None:
        """Run this call and later ones of the tool."""
        self.dismiss("always")

    def action_stop_answer(self) -> None:
        """Stop the answer, which closes this dialog."""
        self.post_message(InterruptPressed())

    @on(Button.Pressed, "#refuse")
    def action_refuse(self) -> None:
        self.dismiss("refuse")
