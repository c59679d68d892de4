"""Confirmation of a tool call: run it, replace its result, or refuse."""

from typing import Any

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from mlxctl.chat.messages import InterruptPressed
from mlxctl.chat.tools.toolbox import Tool, refusal, text_result
from mlxctl.chat.widgets.text_input import TextInput
from mlxctl.ir import ToolCallPart, ToolResultPart
from mlxctl.terminal_text import escape_invisible_characters


class ToolCallScreen(ModalScreen[ToolResultPart | None]):
    """Returns the result for the model; None to run the tool."""

    AUTO_FOCUS = "Input"
    DEFAULT_CSS = """
    ToolCallScreen { align: center middle;
        & > Vertical { width: 76; max-width: 98%; height: auto; max-height: 98%; padding: 0 2;
            border: round $primary;
            background: $surface; border-title-color: $primary; }
        & VerticalScroll { height: auto; max-height: 10; margin: 0 0 1 0; }
        & .hint { color: $text-muted; } }
    """
    BINDINGS = [  # noqa: RUF012 -- Textual API
        Binding("escape", "refuse", "Refuse"),
        Binding("ctrl+c", "stop_answer", show=False),
    ]

    def __init__(self, call: ToolCallPart, tool: Tool | None) -> None:
        super().__init__()
        self._call = call
        self._tool = tool

    def compose(self) -> ComposeResult:
        runs_here = self._tool is not None
        with Vertical() as box:
            # Content instead of str: a tool name may contain markup.
            box.border_title = Content(f"Tool call: {escape_invisible_characters(self._call.name)}")
            with VerticalScroll():
                yield Static(readable_arguments(self._call.arguments), markup=False)
            proposal = "empty: run the tool" if runs_here else "result of the tool"
            yield TextInput(placeholder=proposal, id="result", compact=True)
            how = (
                "Enter runs it, or sends the result that you type"
                if runs_here
                else "Enter sends the result that you type"
            )
            yield Static(f"{how}. Esc refuses, ^C stops.", classes="hint")

    @on(Input.Submitted)
    def give(self, submitted: Input.Submitted) -> None:
        """Return the typed text; without text, None for a known tool."""
        is_typed = submitted.value.strip() or self._tool is None
        self.dismiss(text_result(self._call, submitted.value) if is_typed else None)

    def action_refuse(self) -> None:
        """Return an error result: the user refused the call."""
        self.dismiss(refusal(self._call))

    def action_stop_answer(self) -> None:
        """Stop the answer, which closes this dialog."""
        self.post_message(InterruptPressed())


def readable_arguments(arguments: str) -> str:
    """Return JSON arguments for the user's decision, a line each.

    Text of several lines is below its name. Other arguments are returned as they are. Invisible characters
    are escaped.
    """
    try:
        values = msgspec.json.decode(arguments or "{}", type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError):
        lines = [arguments]
    else:
        lines = [line for name, value in values.items() for line in _argument(name, value)]
        lines = lines or ["It has no arguments."]
    return escape_invisible_characters("\n".join(lines))


def _argument(name: str, value: object) -> list[str]:
    if isinstance(value, str) and "\n" in value:
        return [f"{name}:", *(f"  {line}" for line in value.split("\n"))]
    return [f"{name}: {msgspec.json.format(msgspec.json.encode(value), indent=2).decode()}"]
