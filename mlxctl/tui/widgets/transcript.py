"""The conversation as it is seen: questions and answers in turn; it stays at its end until a person scrolls back."""

from textual.containers import VerticalScroll
from textual.widget import Widget

from mlxctl.tui.widgets.question import Question
from mlxctl.tui.widgets.thinking import Thinking


class Transcript(VerticalScroll, can_focus=False):
    """Knows which widgets belong to the last question, so that it can be taken back."""

    DEFAULT_CSS = """
    Transcript { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1;
        & .-found { background: $warning 20%; } }
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

    def found(self, words: str) -> list[Widget]:
        """Return what shows the words, whatever their case, from top to bottom."""
        wanted = words.casefold()
        return [widget for widget in self.query("*") if wanted in str(getattr(widget, "searchable", "")).casefold()]

    def point_at(self, widget: Widget | None) -> None:
        """Mark one widget, scroll to it and unfold it; with None nothing is marked any more."""
        self.query(".-found").remove_class("-found")
        if widget is None:
            return
        widget.add_class("-found")
        if isinstance(widget, Thinking):
            widget.collapsed = False
        self.release_anchor()
        self.scroll_to_widget(widget, animate=False, top=True)

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
