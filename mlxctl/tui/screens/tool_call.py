"""Confirmation of a tool call: run it, replace its result, or refuse."""

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from mlxctl.ir import TextPart, ToolCallPart, ToolResultPart
from mlxctl.tui.terminal import escape_control_characters
from mlxctl.tui.tools.demo import is_demo_tool, run_call

_REFUSAL = "the user refused this call"


class ToolCallScreen(ModalScreen[ToolResultPart]):
    """Returns the result that is sent to the model."""

    AUTO_FOCUS = "Input"
    DEFAULT_CSS = """
    ToolCallScreen { align: center middle;
        & > Vertical { width: 76; max-width: 98%; height: auto; max-height: 98%; padding: 0 2;
            border: round $primary;
            background: $surface; border-title-color: $primary; }
        & VerticalScroll { height: auto; max-height: 10; margin: 0 0 1 0; }
        & .hint { color: $text-muted; } }
    """
    BINDINGS = [Binding("escape", "refuse", "Refuse")]  # noqa: RUF012 -- Textual API

    def __init__(self, call: ToolCallPart) -> None:
        super().__init__()
        self._call = call

    def compose(self) -> ComposeResult:
        runs_here = is_demo_tool(self._call.name)
        with Vertical() as box:
            # Content instead of str: a tool name may contain markup.
            box.border_title = Content(f"Tool call: {escape_control_characters(self._call.name)}")
            with VerticalScroll():
                yield Static(escape_control_characters(_indented(self._call.arguments)), markup=False)
            proposal = "empty: run the built-in tool" if runs_here else "result of the tool"
            yield Input(placeholder=proposal, id="result", compact=True)
            how = (
                "Enter runs it, or sends the result that you type"
                if runs_here
                else "Enter sends the result that you type"
            )
            yield Static(f"{how}. Esc refuses.", classes="hint")

    @on(Input.Submitted)
    def give(self, submitted: Input.Submitted) -> None:
        """Return the typed text; without text, run the demo tool."""
        if submitted.value.strip() or not is_demo_tool(self._call.name):
            self.dismiss(self._result(submitted.value))
        else:
            self.dismiss(run_call(self._call))

    def action_refuse(self) -> None:
        """Return an error result: the user refused the call."""
        self.dismiss(self._result(_REFUSAL, is_error=True))

    def _result(self, text: str, *, is_error: bool = False) -> ToolResultPart:
        return ToolResultPart(call_id=self._call.id, content=(TextPart(text=text),), is_error=is_error)


def _indented(arguments: str) -> str:
    try:
        return msgspec.json.format(arguments, indent=2)
    except (msgspec.MsgspecError, ValueError):
        return arguments
