"""The model's thinking, collapsed with its duration when complete."""

import time

from textual.app import ComposeResult
from textual.widgets import Collapsible, Static

from mlxctl.terminal_text import escape_prose

# Only the end is drawn while streaming, so that the cost per delta stays constant.
_GROWING_CHARACTERS = 1200


class ThinkingWidget(Collapsible):
    """Expanded while the thinking grows."""

    DEFAULT_CSS = """
    ThinkingWidget { border: none; padding: 0 0 0 1; background: transparent; height: auto;
        color: $text-muted;
        & Contents { padding: 0 0 0 2; height: auto; }
        & Static { color: $text-muted; text-style: italic; } }
    """

    def __init__(self) -> None:
        super().__init__(title="Thinking …", collapsed=False)
        self._text = ""
        self._started = time.monotonic()
        self._body = Static(markup=False)

    def compose(self) -> ComposeResult:
        yield self._title
        with self.Contents():
            yield self._body

    @property
    def search_text(self) -> str:
        """The whole thinking text."""
        return self._text

    def append(self, text: str) -> None:
        self._text += escape_prose(text)
        is_cut = len(self._text) > _GROWING_CHARACTERS
        self._body.update(("… " if is_cut else "") + self._text[-_GROWING_CHARACTERS:].lstrip())
        self.title = f"Thinking … {time.monotonic() - self._started:.0f} s"

    def finish(self, seconds: float | None) -> None:
        """Complete and collapse; `seconds` is None when unknown."""
        self._fold("Thought" if seconds is None else f"Thought for {seconds:.1f} s")

    def abort(self) -> None:
        """Mark as incomplete and collapse."""
        self._fold("Thought (incomplete)")

    def _fold(self, title: str) -> None:
        self._body.update(self._text.strip())
        self.title = title
        self.collapsed = True
