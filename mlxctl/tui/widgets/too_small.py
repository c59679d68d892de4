"""What is shown instead of everything when the terminal has no room for it."""

from textual.widgets import Static

MIN_WIDTH = 40
MIN_HEIGHT = 10


class TooSmall(Static):
    """Says how much room is needed; nothing else changes, and the chat goes on when there is room again."""

    DEFAULT_CSS = """
    TooSmall { display: none; width: 1fr; height: 1fr; content-align: center middle; text-align: center; }
    """

    def __init__(self) -> None:
        words = f"This terminal is too small.\nThe chat needs {MIN_WIDTH}×{MIN_HEIGHT}.\n--plain works in any size."
        super().__init__(words, markup=False)
