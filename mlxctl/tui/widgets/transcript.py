"""The conversation as it is seen: questions and answers in turn; it stays at its end until a person scrolls
back.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from textual import events
from textual.containers import Vertical, VerticalScroll
from textual.geometry import Size
from textual.layout import DockArrangeResult
from textual.widget import Widget

from mlxctl.tui.messages import TopNear
from mlxctl.tui.widgets.question import QuestionWidget
from mlxctl.tui.widgets.thinking import ThinkingWidget

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


# Room above and below the screen, in screens, whose widgets are kept laid out, so that a page further is
# there at once.
_MARGIN_SCREENS = 2


class Transcript(VerticalScroll, can_focus=False):
    """Knows which widgets belong to the last question, so that it can be taken back; folds what is far from
    the screen.
    """

    DEFAULT_CSS = """
    Transcript { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1;
        & .-found { background: $warning 20%; } }
    """

    def __init__(self) -> None:
        super().__init__(id="transcript")
        self._width = 0
        self._num_rows = 0
        self._grows_above = False

    def on_mount(self) -> None:
        """Follow what comes."""
        self.anchor()

    def on_resize(self, event: events.Resize) -> None:
        """Everything has another height in another width."""
        if event.size.width != self._width:
            self._width = event.size.width
            for page in self._pages:
                page.unfold()
            self._fold_after_layout()

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        """Arrange what is inside; what is on the screen stays in its place when something comes above it."""
        arranged = super().arrange(size, optimal)
        num_rows = arranged.total_region.height
        grown, self._num_rows = num_rows - self._num_rows, num_rows
        if self._grows_above and grown:
            # Before it is drawn, so that nothing jumps; at the end of the conversation Textual itself keeps
            # the place.
            first_row = self.scroll_y + grown
            self.set_reactive(VerticalScroll.scroll_y, first_row)
            self.set_reactive(VerticalScroll.scroll_target_y, first_row)
        return arranged

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """What comes near is shown, what goes far is folded."""
        super().watch_scroll_y(old_value, new_value)
        self._fold_after_layout()

    async def add(self, *widgets: Widget) -> None:
        """Add at the end, and look there."""
        last = self._pages[-1] if self._pages else None
        if last is None or (last.is_full and isinstance(widgets[0], QuestionWidget)):
            await self.mount(TranscriptPage(*widgets))
        else:
            await last.mount(*widgets)
        self.anchor()
        self._fold_after_layout()

    @property
    def is_near_top(self) -> bool:
        """Whether what is above the first row would be laid out if there were something."""
        return self.scroll_y < self._layout_margin

    @property
    def has_question(self) -> bool:
        """Whether a question is there to be taken back."""
        return any(isinstance(widget, QuestionWidget) for widget in self._widgets)

    @contextmanager
    def keep_scroll_position(self) -> Iterator[None]:
        """What grows inside is above the screen."""
        self._grows_above = True
        try:
            yield
        finally:
            self._grows_above = False

    async def wait_for_layout(self) -> None:
        """Wait until everything that is here has its place."""
        is_laid_out = asyncio.Event()
        self.call_after_refresh(is_laid_out.set)
        await is_laid_out.wait()

    async def add_above(self, *widgets: Widget) -> None:
        """Add at the beginning; the end stays where it is on the screen."""
        first = self._pages[0] if self._pages else None
        if first is None or first.is_full:
            await self.mount(TranscriptPage(*widgets), before=0)
        else:
            await first.mount(*widgets, before=0)
        self._fold_after_layout()

    def find_widgets(self, text: str) -> list[Widget]:
        """Return what holds the words, whatever their case, from top to bottom."""
        wanted = text.casefold()
        return [
            widget
            for widget in self.query("*")
            if wanted in str(getattr(widget, "search_text", "")).casefold()
        ]

    def highlight(self, widget: Widget | None) -> None:
        """Mark one widget, scroll to it and unfold it; with None nothing is marked any more."""
        self.query(".-found").remove_class("-found")
        if widget is None:
            return
        widget.add_class("-found")
        if isinstance(widget, ThinkingWidget):
            widget.collapsed = False
        self.release_anchor()
        for page in self._pages:
            if page in widget.ancestors:
                page.unfold()
        # What was folded has its place only when it was laid out.
        self.call_after_refresh(self.scroll_to_widget, widget, animate=False, top=True)

    async def drop_answer(self) -> None:
        """Remove what follows the last question."""
        widgets = self._widgets
        questions = [index for index, widget in enumerate(widgets) if isinstance(widget, QuestionWidget)]
        for widget in widgets[questions[-1] + 1 :] if questions else []:
            await widget.remove()

    async def drop_question(self) -> None:
        """Remove the last question and what follows it."""
        await self.drop_answer()
        for question in [widget for widget in self._widgets if isinstance(widget, QuestionWidget)][-1:]:
            await question.remove()
        for page in self._pages[-1:]:
            if not page.children:
                await page.remove()

    async def clear(self) -> None:
        """Remove everything."""
        await self.remove_children()

    @property
    def _pages(self) -> Sequence[TranscriptPage]:
        return [child for child in self.children if isinstance(child, TranscriptPage)]

    @property
    def _widgets(self) -> list[Widget]:
        return [widget for page in self._pages for widget in page.children]

    @property
    def _layout_margin(self) -> int:
        return _MARGIN_SCREENS * self.size.height

    def _fold_after_layout(self) -> None:
        self.call_after_refresh(self._fold_far)

    def _fold_far(self) -> None:
        if self.is_near_top:
            self.post_message(TopNear())
        top, bottom = (
            self.scroll_y - self._layout_margin,
            self.scroll_y + self.size.height + self._layout_margin,
        )
        row = 0
        pages = self._pages
        # At both ends something may still come.
        growing = (*pages[:1], *pages[-1:])
        for page in pages:
            is_far = row + page.num_rows < top or row > bottom
            if is_far and page not in growing:
                page.fold()
            else:
                page.unfold()
            row += page.num_rows
