"""The text streams of a plain chat."""

import asyncio
import os
import termios
from typing import TextIO

from mlxctl.chat.answer_report import AnswerReport, ReportFormat
from mlxctl.chat.chat_turn import DEMO_TOOL_HINT
from mlxctl.chat.line_wrapping import wrapped_for
from mlxctl.chat.progress_line import ProgressLine
from mlxctl.chat.question_reader import QuestionReader
from mlxctl.chat.tools.toolbox import Decision, Tool
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
    Update,
)
from mlxctl.ir import PromptProgress, TextDelta, ThinkingDelta, ToolCallPart
from mlxctl.terminal_text import escape_control_characters, escape_invisible_characters, escape_prose

_MAX_DECISION_BYTES = 1024


class PlainTerminal:
    """Reads questions, and writes answers and diagnostics as lines of text.

    Only answers go to the stream `answers`. With a `report` of "json" an answer is written only as a report,
    with "text" its statistics are a diagnostic. `is_terminal` is true if the questions come from a terminal.
    `shows_thinking`, `shows_statistics` and `raise_limit`, what allows longer answers, may be changed between
    answers.
    """

    def __init__(
        self,
        source: TextIO,
        answers: TextIO,
        diagnostics: TextIO,
        *,
        report: ReportFormat | None = None,
    ) -> None:
        self.is_terminal = source.isatty()
        self.shows_thinking = False
        self.shows_statistics = False
        self.raise_limit = "--max-tokens N"
        self._source = source
        self._answers = answers
        self._diagnostics = diagnostics
        self._report = report
        # A dialog is also for screen readers.
        self.progress = ProgressLine(diagnostics, is_wanted=report is not None)
        # SEC: escape sequences of a model could set the title or the clipboard; pipes get raw text.
        self._sanitize = escape_prose if answers.isatty() else str
        self._is_line_open = False

    def questions(self) -> QuestionReader:
        """Return the reader of the questions."""
        return QuestionReader(self._source, self._answers, self._diagnostics)

    async def decide_on_call(self, call: ToolCallPart, tool: Tool | None) -> Decision:
        """Show a tool call, and return the user's decision."""
        self.end_answer()
        origin = "no such tool here" if tool is None else tool.origin
        self.print_diagnostic(escape_invisible_characters(f"(call of {_call_line(call)}, {origin})"))
        caution = None if tool is None else tool.caution(call)
        if caution is not None:
            self.print_diagnostic(escape_invisible_characters(f"({caution})"))
        can_allow = tool is not None and tool.needs_approval and caution is None
        return await _decide(
            "Run it?", source=self._source, diagnostics=self._diagnostics, can_allow=can_allow
        )

    async def confirm(self, question: str) -> bool:
        """Return whether the user agrees; without a terminal nothing asks."""
        if not self.is_terminal:
            return True
        return (
            await _decide(question, source=self._source, diagnostics=self._diagnostics, can_allow=False)
            == "run"
        )

    def show(self, update: Update) -> None:
        """Write an update of an answer, unless it is only reported."""
        self._show_progress(update)
        if self._report == "json":
            return
        match update:
            case TextDelta():
                print(self._sanitize(update.text), end="", file=self._answers)
                self._is_line_open = True
            case ThinkingDelta() if self.shows_thinking:
                print(escape_prose(update.text), end="", file=self._diagnostics, flush=True)
            case ThinkingEnded():
                line_end = "\n" if self.shows_thinking else ""
                self.print_diagnostic(f"{line_end}(thought for {update.seconds:.1f} s)")
            case AnswerMeasured() if self.shows_statistics and update.statistics.line():
                self.end_answer(f"({update.statistics.line()})")
            case AnswerCut():
                self.end_answer(f"({update.hint(self.raise_limit)})")
            case MessagesDropped():
                self.end_answer(f"({update.message})")
            case ToolReturned():
                self.print_diagnostic(f"(-> {_call_line(update.call)})\n(<- {update.result.text})")
            case RoundsExhausted():
                self.print_diagnostic("(stopped after too many rounds of tool calls)")
            case DemoToolFailed():
                self.print_diagnostic(f"({DEMO_TOOL_HINT})")
            case ServerBusy():
                self.print_diagnostic(f"({update.reason}; retrying)")
            case _:
                pass

    def _show_progress(self, update: Update) -> None:
        match update:
            case RoundStarted():
                self.progress.show("waiting for the first token")
            case PromptProgress():
                percent = 100 * update.num_processed // max(update.num_prompt_tokens, 1)
                self.progress.show(f"reading {percent} % of {update.num_prompt_tokens:,} tokens")
            case ThinkingDelta() if not self.shows_thinking:
                self.progress.show("thinking")
            case _:
                self.progress.clear()

    def flush(self) -> None:
        """Write the buffered part of an answer."""
        self._answers.flush()

    def end_answer(self, remark: str = "") -> None:
        """End the line of the answer, where it has text.

        Then print the remark, if any.
        """
        self.progress.clear()
        if self._is_line_open:
            print(file=self._answers, flush=True)
            self._is_line_open = False
        if remark:
            self.print_diagnostic(remark)

    def end_stopped_answer(self, remark: str) -> None:
        """End the line, and print the remark.

        A terminal that echoed ^C has an open line as well.
        """
        self._is_line_open = self._is_line_open or self._answers.isatty()
        self.end_answer(remark)

    def print_report(self, report: AnswerReport) -> None:
        """Write the report of an answer in the requested format, if any."""
        if self._report == "json":
            print(escape_control_characters(report.json()), file=self._answers, flush=True)
        self.end_answer(f"({report.line()})" if self._report == "text" else "")

    def print_diagnostic(self, text: str) -> None:
        """Write a line that is not part of an answer."""
        self._answers.flush()
        self.progress.clear()
        # SEC: errors of servers, results of tools and names of files are among them.
        shown = wrapped_for(self._diagnostics, escape_control_characters(text))
        print(shown, file=self._diagnostics, flush=True)


async def _decide(question: str, *, source: TextIO, diagnostics: TextIO, can_allow: bool) -> Decision:
    """Ask the user of a terminal: y, yes, or with `can_allow` always.

    Everything else and the end of the input refuses. Can be cancelled. SEC: what was typed before the
    question is discarded.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        if not answer.done():
            answer.set_result(os.read(source.fileno(), _MAX_DECISION_BYTES))

    termios.tcflush(source, termios.TCIFLUSH)
    choices = "always/y/N" if can_allow else "y/N"
    print(f"{question} [{choices}] ", end="", file=diagnostics, flush=True)
    loop.add_reader(source.fileno(), read)
    try:
        typed = (await answer).strip().lower()
    finally:
        loop.remove_reader(source.fileno())
    if typed == b"always" and can_allow:
        return "always"
    return "run" if typed in (b"y", b"yes") else "refuse"


def _call_line(call: ToolCallPart) -> str:
    return f"{call.name}({call.arguments})"
