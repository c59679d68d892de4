"""The thoughts of the model, in a block that collapses at their end and shows how long they took."""

import time

from textual.app import ComposeResult
from textual.widgets import Collapsible, Static

from mlxctl.tui.terminal import escape_control_characters

# While it grows only the end is drawn, so that a long thought costs no more per delta than a short one.
_GROWING_CHARACTERS = 1200


class ThinkingWidget(Collapsible):
    """Open while it grows."""

    DEFAULT_CSS = """
    ThinkingWidget { border: none; padding: 0 0 0 1; background: transparent; height: auto; color: $text-muted;
        & Contents { padding: 0 0 0 2; height: auto; }
        & Static { color: $text-muted; text-style: italic; } }
    """

    def __init__(self) -> None:
        super().__init__(title="Thinking …", collapsed=False)
        self._text = ""
        self._started = time.monotonic()
        self._body = Static(markup=False)

    def compose(self) -> ComposeResult:
        """The title, and the text below it."""
        yield self._title
        with self.Contents():
            yield self._body

    @property
    def search_text(self) -> str:
        """Everything thought so far."""
        return self._text

    def append(self, text: str) -> None:
        """More of the thought."""
        self._text += escape_control_characters(text)
        is_cut = len(self._text) > _GROWING_CHARACTERS
        self._body.update(("… " if is_cut else "") + self._text[-_GROWING_CHARACTERS:].lstrip())
        self.title = f"Thinking … {time.monotonic() - self._started:.0f} s"

    def finish(self, seconds: float | None) -> None:
        """The thought is complete, after a time that may not be known any more; fold it."""
        self._fold("Thought" if seconds is None else f"Thought for {seconds:.1f} s")

    def abort(self) -> None:
        """The thought will not be completed; fold it."""
        self._fold("Thought (incomplete)")

    def _fold(self, title: str) -> None:
        self._body.update(self._text.strip())
        self.title = title
        self.collapsed = True
