"""The thoughts of the model, in a block that collapses at their end and shows how long they took."""

import time

from textual.app import ComposeResult
from textual.widgets import Collapsible, Static

from mlxctl.tui.control_characters import visible_controls

# While it grows only the end is drawn, so that a long thought costs no more per delta than a short one.
_GROWING_CHARACTERS = 1200


class Thinking(Collapsible):
    """Open while it grows."""

    DEFAULT_CSS = """
    Thinking { border: none; padding: 0 0 0 1; background: transparent; height: auto; color: $text-muted;
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
    def searchable(self) -> str:
        """Everything thought so far."""
        return self._text

    def grow(self, text: str) -> None:
        """More of the thought."""
        self._text += visible_controls(text)
        is_cut = len(self._text) > _GROWING_CHARACTERS
        self._body.update(("… " if is_cut else "") + self._text[-_GROWING_CHARACTERS:].lstrip())
        self.title = f"Thinking … {time.monotonic() - self._started:.0f} s"

    def end(self, seconds: float | None) -> None:
        """The thought is complete, after a time that may not be known any more; fold it."""
        self._fold("Thought" if seconds is None else f"Thought for {seconds:.1f} s")

    def break_off(self) -> None:
        """The thought will not be completed; fold it."""
        self._fold("Thought (incomplete)")

    def _fold(self, title: str) -> None:
        self._body.update(self._text.strip())
        self.title = title
        self.collapsed = True
