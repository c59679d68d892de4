"""A question as typed, without markup."""

from mlxctl.chat.attachments import attached_to, describe_attached
from mlxctl.chat.conversation import ChatMessage
from mlxctl.chat.widgets.searchable import SearchableStatic
from mlxctl.terminal_text import escape_prose

_MAX_LINES = 20
_MAX_CHARACTERS = 2000


class QuestionWidget(SearchableStatic):
    """One question; long text is shortened on screen but fully searchable."""

    DEFAULT_CSS = """
    QuestionWidget { padding: 0 1; margin: 1 0; border-left: thick $primary; color: $text;
        background: $foreground 5%;
        &.-selected { border-left: outer $accent; background: $accent 30%; } }
    """

    def __init__(self, question: ChatMessage) -> None:
        text = question.message.text
        attached = describe_attached(attached_to(question.message.parts))
        head = f"[{attached}]\n" if attached else ""
        super().__init__(escape_prose(head + _shortened(question.shown or text)), markup=False)
        self.question = question
        self.search_text = text


def _shortened(text: str) -> str:
    lines = text.splitlines()
    shown = "\n".join(lines[:_MAX_LINES])[:_MAX_CHARACTERS]
    if len(shown) >= len(text.rstrip("\n")):
        return shown
    return f"{shown}\n… ({len(text):,} characters in all)"
