"""Some questions and answers in a row.

Laying out costs time for all that is shown, so what is far from the screen is folded.
"""

from textual.containers import Vertical

MAX_WIDGETS = 24
"""How many widgets a stretch holds before the next question begins another."""


class TranscriptPage(Vertical):
    """Folded, it keeps its height and shows nothing inside: a long conversation is as quick to draw as a
    short one.
    """

    DEFAULT_CSS = """
    TranscriptPage { height: auto; }
    """

    is_folded = False

    @property
    def num_rows(self) -> int:
        """Its height, which is 0 until it was laid out."""
        return self.size.height

    @property
    def is_full(self) -> bool:
        """Whether the next question has to go elsewhere."""
        return len(self.query("*")) >= MAX_WIDGETS

    def fold(self) -> None:
        """Show nothing, in as much room."""
        if self.is_folded or not self.num_rows:
            return
        self.is_folded = True
        self.styles.height = self.num_rows
        self._display_children(is_shown=False)

    def unfold(self) -> None:
        """Show everything, in as much room as it takes."""
        if not self.is_folded:
            return
        self.is_folded = False
        self.styles.height = "auto"
        self._display_children(is_shown=True)

    def _display_children(self, *, is_shown: bool) -> None:
        with self.app.batch_update():
            for child in self.children:
                child.display = is_shown
