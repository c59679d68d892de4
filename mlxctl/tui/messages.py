"""Messages from widgets to the screen."""

from textual.message import Message


class QuestionSubmitted(Message):
    """A question was sent from the input."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class InterruptPressed(Message):
    """Ctrl-C was pressed without a selection."""


class PasteFolded(Message):
    """A long paste was replaced by a placeholder in the input."""

    def __init__(self, num_characters: int) -> None:
        super().__init__()
        self.num_characters = num_characters


class TopNear(Message):
    """The transcript was scrolled near its first loaded message."""
