"""Notice for terminals that are too small."""

from textual.widgets import Static

MIN_WIDTH = 40
MIN_HEIGHT = 10


class TooSmall(Static):
    """Replaces all widgets until the terminal is large enough."""

    DEFAULT_CSS = """
    TooSmall { display: none; width: 1fr; height: 1fr; content-align: center middle; text-align: center; }
    """

    def __init__(self) -> None:
        size = f"{MIN_WIDTH}×{MIN_HEIGHT}"
        text = f"This terminal is too small.\nThe chat needs {size}.\n--plain works in any size."
        super().__init__(text, markup=False)
