"""The conversation as it is seen: questions and answers in turn; it stays at its end until a person scrolls back."""

from textual.containers import VerticalScroll
from textual.widget import Widget

from mlxctl.tui.widgets.question import Question


class Transcript(VerticalScroll, can_focus=False):
    """Knows which widgets belong to the last question, so that it can be taken back."""

    DEFAULT_CSS = """
    Transcript { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
    """

    def __init__(self) -> None:
        super().__init__(id="transcript")

    def on_mount(self) -> None:
        """Follow what comes."""
        self.anchor()

    async def add(self, *widgets: Widget) -> None:
        """Add at the end, and look there."""
        await self.mount(*widgets)
        self.anchor()

    async def drop_answer(self) -> None:
        """Remove what follows the last question."""
        children = list(self.children)
        questions = [index for index, child in enumerate(children) if isinstance(child, Question)]
        await self.remove_children(children[questions[-1] + 1 :] if questions else [])

    async def drop_question(self) -> None:
        """Remove the last question and what follows it."""
        await self.drop_answer()
        await self.remove_children([child for child in self.children if isinstance(child, Question)][-1:])

    async def clear(self) -> None:
        """Remove everything."""
        await self.remove_children()
