"""Messages from widgets to the screen."""

from textual.message import Message

from mlxctl.chat.chat_commands import ChatCommand
from mlxctl.chat.conversation import ChatMessage


class QuestionSubmitted(Message):
    """A question was sent from the input.

    `shown` is its text with a mark for each long paste.
    """

    def __init__(self, text: str, *, shown: str) -> None:
        super().__init__()
        self.text = text
        self.shown = shown


class CommandTyped(Message):
    """The input begins these commands; none for other text.

    `selected` is the index of the one that Enter runs.
    """

    def __init__(self, commands: list[ChatCommand], *, selected: int | None) -> None:
        super().__init__()
        self.commands = commands
        self.selected = selected


class InterruptPressed(Message):
    """Ctrl-C was pressed without a selection."""


class TextTyped(Message):
    """A letter without a meaning for the focused widget was typed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class PasteFolded(Message):
    """A long paste was replaced by a placeholder in the input."""

    def __init__(self, num_characters: int) -> None:
        super().__init__()
        self.num_characters = num_characters


class MessageClicked(Message):
    """A question or an answer was clicked.

    `question` is the clicked question, or the one that the answer is for.
    """

    def __init__(self, question: ChatMessage | None, *, is_question: bool) -> None:
        super().__init__()
        self.question = question
        self.is_question = is_question


class TopNear(Message):
    """The transcript was scrolled near its first loaded message."""
