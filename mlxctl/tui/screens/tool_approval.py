"""Approval of a tool call that acts outside the chat."""

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from mlxctl.ir import ToolCallPart
from mlxctl.tui.screens.tool_call import indented
from mlxctl.tui.terminal import escape_control_characters
from mlxctl.tui.tools.toolbox import Tool


class ToolApprovalScreen(ModalScreen[bool]):
    """Returns whether the user agreed to the call.

    SEC: the dialog may open while the user types a question, so that Enter refuses and no letter agrees.
    """

    AUTO_FOCUS = "#refuse"
    DEFAULT_CSS = """
    ToolApprovalScreen { align: center middle;
        & > Vertical { width: 76; max-width: 98%; height: auto; max-height: 98%; padding: 0 2;
            border: round $warning;
            background: $surface; border-title-color: $text-warning; }
        & VerticalScroll { height: auto; max-height: 12; margin: 1 0; }
        & Horizontal { height: 1; }
        & Button { margin: 0 2 0 0; }
        & .hint { color: $text-muted; margin: 1 0 0 0; } }
    """
    BINDINGS = [  # noqa: RUF012 -- Textual API
        Binding("escape", "refuse", "Refuse"),
        Binding("ctrl+y", "agree", "Run"),
        Binding("left,right", "app.focus_next", show=False),
    ]

    def __init__(self, call: ToolCallPart, tool: Tool) -> None:
        super().__init__()
        self._call = call
        self._tool = tool

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            # Content instead of str: a tool name may contain markup.
            box.border_title = Content(f"Run {escape_control_characters(self._call.name)}?")
            yield Static(
                f"The model calls a tool of {escape_control_characters(self._tool.origin)}.", markup=False
            )
            with VerticalScroll(can_focus=False):
                yield Static(escape_control_characters(indented(self._call.arguments)), markup=False)
            with Horizontal():
                yield Button("Refuse", id="refuse", compact=True)
                yield Button("Run", id="run", variant="warning", compact=True)
            yield Static("^Y runs it. Tab chooses, Enter confirms, Esc refuses.", classes="hint")

    @on(Button.Pressed, "#run")
    def action_agree(self) -> None:
        self.dismiss(True)

    @on(Button.Pressed, "#refuse")
    def action_refuse(self) -> None:
        self.dismiss(False)
