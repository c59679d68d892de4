"""The running answer, and the questions about its tool calls."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import TypeVar

from textual.screen import ModalScreen, Screen

from mlxctl.chat.chat_turn import ChatTurn
from mlxctl.chat.controller.effects import Answer, EndAnswer
from mlxctl.chat.controller.state import ChatState
from mlxctl.chat.conversation import turns
from mlxctl.chat.event_batching import batch_events
from mlxctl.chat.history_loader import HistoryLoader, replay
from mlxctl.chat.tools.toolbox import Tool, refusal
from mlxctl.chat.turn_updates import ToolReturned, ToolStarted, Update
from mlxctl.chat.widgets.answer import AnswerWidget
from mlxctl.chat.widgets.notice import Notice
from mlxctl.chat.widgets.question import QuestionWidget
from mlxctl.chat.widgets.status_line import StatusLine
from mlxctl.chat.widgets.transcript import ChatTranscript
from mlxctl.ir import ToolCallPart, ToolResultPart
from mlxctl.ir.errors import EngineError
from mlxctl.terminal_text import escape_control_characters

# Minimum time between two updates of the transcript.
_DELTA_SECONDS = 0.05

Decision = TypeVar("Decision")


class AnswerView:
    """Draws one answer at a time below all messages. UI thread only."""

    def __init__(self, screen: Screen[None], chat: ChatState, history: HistoryLoader) -> None:
        self._screen = screen
        self._chat = chat
        self._history = history
        self._widget: AnswerWidget | None = None

    async def draw(self, effect: Answer) -> None:
        """Draw the question and its answer. Raises MlxctlError."""
        chat = self._chat
        self._widget = AnswerWidget(chat.conversation.messages[-1], chat.tools)
        if effect.asked is not None:
            await self._transcript.add(QuestionWidget(effect.asked))
        await self._transcript.add(self._widget)
        await chat.opened.wait()
        if chat.model is None:
            raise EngineError("there is no model to ask")
        self._status.set_state("answering")
        turn = ChatTurn(
            chat.backend,
            chat.model,
            chat.conversation,
            chat.options,
            tools=chat.tools,
            confirm_call=self._confirm_call,
        )
        chat.meter = turn.meter
        async with aclosing(batch_events(turn.run(), seconds=_DELTA_SECONDS)) as batches:
            async for batch in batches:
                self._show_tool_state(batch)
                await self._widget.show(batch)

    async def end(self, effect: EndAnswer) -> None:
        """Complete the answer; the former one may be shown again."""
        assert self._widget is not None, "it was drawn"
        first = next(iter(turns(effect.restored)), (None, []))[1]
        await self._widget.show(replay(first))
        await self._history.append(effect.restored[len(first) :])
        self._widget.finish(Notice(effect.text, kind=effect.kind) if effect.text else None)

    @property
    def _transcript(self) -> ChatTranscript:
        return self._screen.query_one(ChatTranscript)

    @property
    def _status(self) -> StatusLine:
        return self._screen.query_one(StatusLine)

    def _show_tool_state(self, batch: Sequence[Update]) -> None:
        """Name a running tool in the status line."""
        for update in batch:
            match update:
                case ToolStarted() if self._status.state == "answering":
                    self._status.set_state(f"running {escape_control_characters(update.call.name)}")
                case ToolReturned() if self._status.state.startswith("running "):
                    self._status.set_state("answering")
                case _:
                    pass

    async def _confirm_call(self, call: ToolCallPart, tool: Tool | None) -> ToolResultPart | None:
        """Ask the user about a tool call; None runs it."""
        from mlxctl.chat.screens.tool_approval import ToolApprovalScreen
        from mlxctl.chat.screens.tool_call import ToolCallScreen

        if tool is None or not tool.needs_approval:
            return await self._ask_user(ToolCallScreen(call, tool))
        decision = await self._ask_user(ToolApprovalScreen(call, tool))
        if decision == "always":
            self._chat.tools.allow(call.name)
        return refusal(call) if decision in (None, "refuse") else None

    async def _ask_user(self, dialog: ModalScreen[Decision]) -> Decision | None:
        """Return the answer of a dialog; stopping the answer closes it."""
        decided: asyncio.Future[Decision | None] = asyncio.get_running_loop().create_future()
        self._status.set_state("waiting for you")
        self._screen.app.push_screen(dialog, decided.set_result)
        try:
            return await decided
        finally:
            self._status.set_state("answering")
            # Stopping the answer cancels the future.
            if dialog.is_current and (decided.cancelled() or not decided.done()):
                self._screen.app.pop_screen()
