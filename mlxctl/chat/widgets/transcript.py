"""The scrolling conversation, divided into pages."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from textual import events
from textual.containers import Vertical, VerticalScroll
from textual.geometry import Region, Size, Spacing
from textual.layout import DockArrangeResult
from textual.widget import Widget

from mlxctl.chat.conversation import ChatEntry
from mlxctl.chat.messages import MessageClicked, TopNear
from mlxctl.chat.widgets.answer import AnswerWidget
from mlxctl.chat.widgets.question import QuestionWidget
from mlxctl.chat.widgets.searchable import SearchableStatic
from mlxctl.chat.widgets.thinking import ThinkingWidget

MAX_WIDGETS = 24
"""Number of widgets after which the next question starts a new page."""


class TranscriptPage(Vertical):
    """Several questions and answers in a row.

    On wide terminals its lines have about 100 columns, which are read well. Layout costs time for every shown
    widget. A folded page keeps its height and hides its widgets, so that
    long conversations stay fast.
    """

    DEFAULT_CSS = """
    TranscriptPage { height: auto; max-width: 108; }
    """

    is_folded = False

    @property
    def num_rows(self) -> int:
        """Its height; 0 before the first layout."""
        return self.size.height

    @property
    def is_full(self) -> bool:
        """Whether the next question starts a new page."""
        return len(self.query("*")) >= MAX_WIDGETS

    def fold(self) -> None:
        """Hide the widgets, keep the height."""
        if self.is_folded or not self.num_rows:
            return
        self.is_folded = True
        self.styles.height = self.num_rows
        self._display_children(is_shown=False)

    def unfold(self) -> None:
        """Show the widgets with automatic height."""
        if not self.is_folded:
            return
        self.is_folded = False
        self.styles.height = "auto"
        self._display_children(is_shown=True)

    def _display_children(self, *, is_shown: bool) -> None:
        with self.app.batch_update():
            for child in self.children:
                child.display = is_shown


# Pages within this many screen heights stay laid out, so that paging shows them at once.
_MARGIN_SCREENS = 2


class ChatTranscript(VerticalScroll, can_focus=False):
    """Follows new text until the user scrolls up; folds distant pages."""

    DEFAULT_CSS = """
    ChatTranscript { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1;
        & .-found { background: $warning 20%; }
        &.-without-statistics StatisticsLine { display: none; } }
    """

    def __init__(self) -> None:
        super().__init__(id="transcript")
        self._width = 0
        self._num_rows = 0
        self._grows_above = False

    def on_mount(self) -> None:
        """Scroll to the end with new text."""
        self.anchor()

    def on_resize(self, event: events.Resize) -> None:
        """Lay out all pages again when the width changes."""
        if event.size.width != self._width:
            self._width = event.size.width
            for page in self._pages:
                page.unfold()
            self._fold_after_layout()

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        """Lay out; visible rows stay in place when text is added above."""
        arranged = super().arrange(size, optimal)
        num_rows = arranged.total_region.height
        grown, self._num_rows = num_rows - self._num_rows, num_rows
        if self._grows_above and grown:
            # Set before drawing, so that nothing jumps; at the end Textual keeps the position itself.
            first_row = self.scroll_y + grown
            self.set_reactive(VerticalScroll.scroll_y, first_row)
            self.set_reactive(VerticalScroll.scroll_target_y, first_row)
        return arranged

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Unfold near pages and fold distant ones."""
        super().watch_scroll_y(old_value, new_value)
        self._fold_after_layout()

    async def add(self, *widgets: Widget) -> None:
        """Append widgets and scroll to them."""
        last = self._pages[-1] if self._pages else None
        if last is None or (last.is_full and isinstance(widgets[0], QuestionWidget)):
            await self.mount(TranscriptPage(*widgets))
        else:
            await last.mount(*widgets)
        self.anchor()
        self._fold_after_layout()

    @property
    def is_near_top(self) -> bool:
        """Whether the top is within the margin that is laid out."""
        return self.scroll_y < self._layout_margin

    def widget_of(self, entry: ChatEntry) -> QuestionWidget | AnswerWidget | None:
        """Return the widget of an entry; None before it is loaded."""
        kind = QuestionWidget if entry.is_question else AnswerWidget
        return next(
            (
                widget
                for widget in self._widgets
                if isinstance(widget, kind) and widget.question is entry.question
            ),
            None,
        )

    def select(self, entry: ChatEntry | None) -> None:
        """Mark the widget of an entry and scroll to it.

        None marks nothing.
        """
        self.query(".-selected").remove_class("-selected")
        widget = None if entry is None else self.widget_of(entry)
        if widget is None:
            return
        widget.add_class("-selected")
        self._unfold_page(widget)
        self.release_anchor()
        self.call_after_refresh(
            self._scroll_to_rows, widget, 0, min(widget.size.height, self.size.height - 4)
        )

    def on_click(self, event: events.Click) -> None:
        """Tell which message was clicked, unless text was selected."""
        clicked = event.widget
        if clicked is None or self.screen.get_selected_text():
            return
        for widget in clicked.ancestors_with_self:
            if isinstance(widget, QuestionWidget | AnswerWidget):
                is_question = isinstance(widget, QuestionWidget)
                self.post_message(MessageClicked(widget.question, is_question=is_question))

    @contextmanager
    def keep_scroll_position(self) -> Iterator[None]:
        """Keep visible rows in place while content above them grows."""
        self._grows_above = True
        try:
            yield
        finally:
            self._grows_above = False

    async def wait_for_layout(self) -> None:
        """Wait for the next layout."""
        is_laid_out = asyncio.Event()
        self.call_after_refresh(is_laid_out.set)
        await is_laid_out.wait()

    async def add_above(self, *widgets: Widget) -> None:
        """Insert widgets at the top."""
        first = self._pages[0] if self._pages else None
        if first is None or first.is_full:
            await self.mount(TranscriptPage(*widgets), before=0)
        else:
            await first.mount(*widgets, before=0)
        self._fold_after_layout()

    def find_matches(self, query: str) -> list[tuple[Widget, int]]:
        """Return the matches, ignoring case, top to bottom.

        Each is a widget and the number within it.
        """
        wanted = query.casefold()
        return [
            (widget, number)
            for widget in self.query("*")
            for number in range(str(getattr(widget, "search_text", "")).casefold().count(wanted))
        ]

    def highlight(self, query: str, match: tuple[Widget, int] | None) -> None:
        """Highlight the text in all widgets and scroll to a match.

        An empty query removes the highlights.
        """
        self.query(".-found").remove_class("-found")
        for searchable in self.query(SearchableStatic):
            searchable.highlight(query)
        if match is None:
            return
        widget, number = match
        if isinstance(widget, ThinkingWidget):
            widget.add_class("-found")
            widget.collapsed = False
        self.release_anchor()
        self._unfold_page(widget)
        # An unfolded page has its position only after a layout.
        self.call_after_refresh(self._scroll_to_match, widget, number)

    def _unfold_page(self, widget: Widget) -> None:
        for page in self._pages:
            if page in widget.ancestors:
                page.unfold()

    def _scroll_to_match(self, widget: Widget, number: int) -> None:
        row = widget.row_of_match(number) if isinstance(widget, SearchableStatic) else 0
        self._scroll_to_rows(widget, row, 1)

    def _scroll_to_rows(self, widget: Widget, row: int, num_rows: int) -> None:
        region = widget.virtual_region_with_margin
        target = Region(region.x, region.y + row, region.width, max(num_rows, 1))
        parent = widget.parent
        while isinstance(parent, Widget) and parent is not self:
            target = target.translate(parent.virtual_region.offset)
            parent = parent.parent
        self.scroll_to_region(target, spacing=Spacing(2, 0, 2, 0), animate=False, force=True)

    async def drop(self, entries: Sequence[ChatEntry]) -> None:
        """Remove the widgets of entries.

        Those of a question with what is shown as its answer.
        """
        questions = [entry.question for entry in entries if entry.is_question]
        answers = [entry.question for entry in entries]
        await self._remove(
            [
                widget
                for widget in self._widgets
                if (isinstance(widget, QuestionWidget) and any(widget.question is one for one in questions))
                or (isinstance(widget, AnswerWidget) and any(widget.question is one for one in answers))
            ]
        )

    async def drop_below(self, entry: ChatEntry) -> None:
        """Remove everything below an entry, notices included."""
        widgets, last = self._widgets, self.widget_of(entry)
        if last is not None:
            await self._remove(widgets[widgets.index(last) + 1 :])

    async def _remove(self, widgets: Sequence[Widget]) -> None:
        for widget in widgets:
            await widget.remove()
        for page in self._pages:
            if not page.children:
                await page.remove()

    async def clear(self) -> None:
        """Remove everything, and follow the text that comes next."""
        await self.remove_children()
        self._num_rows = 0
        self.anchor()

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
        # The first and the last page may still grow.
        growing = (*pages[:1], *pages[-1:])
        for page in pages:
            is_far = row + page.num_rows < top or row > bottom
            if is_far and page not in growing:
                page.fold()
            else:
                page.unfold()
            row += page.num_rows
