"""A tool call: name, streamed arguments, and result."""

from textual.content import Content

from mlxctl.chat.widgets.searchable import SearchableStatic
from mlxctl.ir import ToolResultPart
from mlxctl.terminal_text import escape_control_characters

_MAX_CHARACTERS = 600


class ToolCallWidget(SearchableStatic):
    """One call on two lines."""

    DEFAULT_CSS = """
    ToolCallWidget { padding: 0 1; margin: 0 0 1 0; border-left: outer $secondary; height: auto; }
    """

    def __init__(self, name: str, *, origin: str) -> None:
        """`origin` names the source of the tool."""
        super().__init__()
        self._name_of_tool = name
        self._origin = origin
        self._arguments = ""
        self._result: ToolResultPart | None = None
        self._is_aborted = False
        self._draw()

    @property
    def search_text(self) -> str:
        """Name, arguments and result."""
        result = "" if self._result is None else self._result.text
        return f"{self._name_of_tool} {self._arguments} {result}"

    def append(self, json: str) -> None:
        """Append to the arguments."""
        self._arguments += json
        self._draw()

    def set_result(self, result: ToolResultPart) -> None:
        self._result = result
        self._draw()

    def abort(self) -> None:
        """Tell that no result follows."""
        self._is_aborted = True
        self._draw()

    def _draw(self) -> None:
        call = Content.assemble(
            "→ ",
            (escape_control_characters(self._name_of_tool) or "?", "bold"),
            f"({_cut(escape_control_characters(self._arguments))})  ",
            (escape_control_characters(self._origin), "dim"),
        )
        if self._result is None:
            self.update(
                Content.assemble(call, ("\n← no result", "$text-warning")) if self._is_aborted else call
            )
            return
        style = "$text-error" if self._result.is_error else "$text-success"
        self.update(
            Content.assemble(
                call, "\n← ", (_cut(escape_control_characters(self._result.text.rstrip())), style)
            )
        )


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]} …"
