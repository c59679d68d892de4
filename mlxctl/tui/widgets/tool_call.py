"""A tool call: name, arguments as they come, and the result."""

from textual.content import Content
from textual.widgets import Static

from mlxctl.ir import ToolResultPart
from mlxctl.tui.control_characters import visible_controls
from mlxctl.tui.tools import is_demo_tool

_MAX_CHARACTERS = 600


class ToolCall(Static):
    """One call in two lines."""

    DEFAULT_CSS = """
    ToolCall { padding: 0 1; margin: 0 0 1 0; border-left: outer $secondary; height: auto; }
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name_of_tool = name
        self._arguments = ""
        self._result: ToolResultPart | None = None
        self._draw()

    @property
    def searchable(self) -> str:
        """Name, arguments and result."""
        result = "" if self._result is None else self._result.text
        return f"{self._name_of_tool} {self._arguments} {result}"

    def grow(self, json: str) -> None:
        """More of the arguments."""
        self._arguments += json
        self._draw()

    def returned(self, result: ToolResultPart) -> None:
        """Show the result."""
        self._result = result
        self._draw()

    def _draw(self) -> None:
        origin = "built-in" if is_demo_tool(self._name_of_tool) else "no such tool here"
        call = Content.assemble(
            "→ ",
            (visible_controls(self._name_of_tool) or "?", "bold"),
            f"({_cut(visible_controls(self._arguments))})  ",
            (origin, "dim"),
        )
        if self._result is None:
            self.update(call)
            return
        style = "$text-error" if self._result.is_error else "$text-success"
        self.update(Content.assemble(call, "\n← ", (_cut(visible_controls(self._result.text)), style)))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]} …"
