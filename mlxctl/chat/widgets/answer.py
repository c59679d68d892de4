"""Everything after a question: thinking, text, tool calls and notices."""

from typing import TYPE_CHECKING, assert_never

from textual.containers import Vertical
from textual.widgets import Static

from mlxctl.chat.answer_statistics import AnswerStatistics
from mlxctl.chat.chat_turn import DEMO_TOOL_HINT, MAX_ROUNDS
from mlxctl.chat.conversation import ChatMessage
from mlxctl.chat.event_batching import merge_deltas
from mlxctl.chat.markdown_segments import Segmenter
from mlxctl.chat.tools.toolbox import ToolBox
from mlxctl.chat.turn_updates import (
    AnswerCut,
    AnswerMeasured,
    DemoToolFailed,
    MessagesDropped,
    RoundsExhausted,
    RoundStarted,
    ServerBusy,
    ThinkingEnded,
    ToolReturned,
    ToolStarted,
    Update,
)
from mlxctl.chat.widgets.notice import Notice
from mlxctl.chat.widgets.thinking import ThinkingWidget
from mlxctl.chat.widgets.tool_call import ToolCallWidget
from mlxctl.ir import (
    Finished,
    GeneratedTokens,
    PromptProgress,
    TextDelta,
    ThinkingDelta,
    ToolArgumentsDelta,
    ToolCallEnded,
    ToolCallStarted,
)

if TYPE_CHECKING:
    from mlxctl.chat.widgets.markdown_segment import MarkdownSegment


class StatisticsLine(Static):
    """Tokens and times of an answer, below it.

    Hidden in a transcript that shows no statistics.
    """

    DEFAULT_CSS = """
    StatisticsLine { padding: 0 1 0 2; margin: 0 0 1 0; color: $text-muted; }
    """

    def __init__(self, text: str) -> None:
        super().__init__(text, markup=False)


class AnswerWidget(Vertical):
    """Grows with each update; only its last child changes.

    The cost of an update is therefore independent of the answer's length.
    """

    DEFAULT_CSS = """
    AnswerWidget { height: auto;
        &.-selected > * { border-left: outer $accent; padding: 0 1; }
        &.-selected > ThinkingWidget { padding: 0; } }
    """

    def __init__(self, question: ChatMessage | None, tools: ToolBox) -> None:
        """`tools` names the sources of called tools."""
        super().__init__()
        self.question = question
        self._tools = tools
        self._text: MarkdownSegment | None = None
        self._segmenter: Segmenter | None = None
        self._thinking: ThinkingWidget | None = None
        self._calls: dict[int, ToolCallWidget] = {}
        self._calls_by_id: dict[str, ToolCallWidget] = {}
        self._busy: Notice | None = None
        self._statistics: AnswerStatistics | None = None

    async def show(self, updates: list[Update]) -> None:
        """Draw updates; return when drawn, so that slow terminals get larger batches."""
        for update in merge_deltas(updates):
            await self._show_one(update)

    def finish(self, notice: Notice | None = None) -> None:
        """Complete the answer; `notice` explains an unusual end.

        Statistics are those of the last request of the turn.
        """
        if self._thinking is not None:
            self._thinking.abort()
            self._thinking = None
        for call in self._calls_by_id.values():
            call.abort()
        if self._statistics is not None and (line := self._statistics.line()):
            self.mount(StatisticsLine(line))
        if notice is not None:
            self.mount(notice)

    async def _show_one(self, update: Update) -> None:
        if self._busy is not None and not isinstance(update, ServerBusy):
            await self._busy.remove()
            self._busy = None
        match update:
            case ServerBusy():
                await self._show_busy(f"{update.reason}. Retrying …")
            case RoundStarted():
                self._end_text()
                self._calls = {}
                self._statistics = None
            case AnswerMeasured():
                self._statistics = update.statistics
            case ThinkingDelta():
                self._end_text()
                await self._append_thinking(update.text)
            case ThinkingEnded():
                if self._thinking is not None:
                    self._thinking.finish(update.seconds)
                    self._thinking = None
            case TextDelta():
                await self._append_text(update.text)
            case ToolCallStarted():
                self._end_text()
                call = ToolCallWidget(update.name, origin=self._tools.origin(update.name))
                self._calls[update.index] = self._calls_by_id[update.id] = call
                await self.mount(call)
            case ToolArgumentsDelta():
                self._calls[update.index].append(update.json)
            case ToolReturned():
                self._calls_by_id[update.call.id].set_result(update.result)
            case RoundsExhausted():
                text = f"Stopped after {MAX_ROUNDS} rounds of tool calls. Send a message to continue."
                await self.mount(Notice(text, kind="warning"))
            case DemoToolFailed():
                await self.mount(Notice(DEMO_TOOL_HINT, kind="warning"))
            case AnswerCut():
                await self.mount(Notice(update.hint("/set max_tokens N"), kind="warning"))
            case MessagesDropped():
                await self.mount(Notice(update.message, kind="warning"))
            case PromptProgress() | GeneratedTokens() | ToolCallEnded() | Finished() | ToolStarted():
                pass
            case _:
                assert_never(update)

    async def _show_busy(self, text: str) -> None:
        if self._busy is None:
            self._busy = Notice(text, kind="warning")
            await self.mount(self._busy)
        else:
            self._busy.set_message(text, kind="warning")

    async def _append_thinking(self, text: str) -> None:
        if self._thinking is None:
            self._thinking = ThinkingWidget()
            await self.mount(self._thinking)
        self._thinking.append(text)

    async def _append_text(self, text: str) -> None:
        if self._segmenter is None:
            text = text.lstrip("\n")
            if not text.strip():
                return
            self._segmenter = Segmenter()
        for piece in self._segmenter.feed(text):
            if self._text is None or piece.starts_segment:
                if self._text is not None and piece.cuts_block:
                    self._text.continue_block()
                self._text = await self._mount_segment(continues_code=piece.cuts_block)
            if piece.text:
                self._text.append(piece.text)

    async def _mount_segment(self, *, continues_code: bool) -> "MarkdownSegment":
        # PERF: importing the Markdown parser takes a tenth of the time to the first frame.
        from mlxctl.chat.widgets.markdown_segment import MarkdownSegment

        text = MarkdownSegment(continues_code=continues_code)
        await self.mount(text)
        return text

    def _end_text(self) -> None:
        self._text = self._segmenter = None
