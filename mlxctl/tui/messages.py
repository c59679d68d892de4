"""Messages from widgets to the screen; the screen decides what follows."""

from textual.message import Message


class QuestionSubmitted(Message):
    """A question was sent from the input."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class InterruptPressed(Message):
    """Ctrl-C was pressed with nothing selected."""


class PasteFolded(Message):
    """A paste was too long to show and stands as a mark in the input."""

    def __init__(self, num_characters: int) -> None:
        super().__init__()
        self.num_characters = num_characters


class TopNear(Message):
    """The conversation is scrolled near to the first message that is drawn."""
