"""Loads earlier messages into the transcript, last turn first, on scrolling up."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

from mlxctl.chat.conversation import ChatEntry, ChatMessage, turns
from mlxctl.chat.tools.toolbox import ToolBox
from mlxctl.chat.turn_updates import AnswerMeasured, RoundStarted, ThinkingEnded, ToolReturned, Update
from mlxctl.chat.widgets.answer import AnswerWidget
from mlxctl.chat.widgets.notice import Notice
from mlxctl.chat.widgets.question import QuestionWidget
from mlxctl.chat.widgets.transcript import ChatTranscript
from mlxctl.ir import (
    Message,
    TextDelta,
    ThinkingDelta,
    ToolArgumentsDelta,
    ToolCallEnded,
    ToolCallPart,
    ToolCallStarted,
)


def replay(messages: Sequence[ChatMessage]) -> list[Update]:
    """Return the updates that draw an answer again."""
    updates: list[Update] = []
    calls: dict[str, ToolCallPart] = {}
    for item in messages:
        if item.message.role == "assistant":
            calls |= {call.id: call for call in item.message.tool_calls}
            updates += _answer(item)
        else:
            results = item.message.tool_results
            updates += [
                ToolReturned(call=calls[result.call_id], result=result)
                for result in results
                if result.call_id in calls
            ]
    return updates


def _answer(item: ChatMessage) -> Iterator[Update]:
    message: Message = item.message
    yield RoundStarted()
    if message.thinking:
        yield ThinkingDelta(text=message.thinking)
        yield ThinkingEnded(seconds=item.thinking_seconds)
    if message.text:
        yield TextDelta(text=message.text)
    for index, call in enumerate(message.tool_calls):
        yield ToolCallStarted(index=index, id=call.id, name=call.name)
        yield ToolArgumentsDelta(index=index, json=call.arguments)
        yield ToolCallEnded(index=index)
    if item.statistics is not None:
        yield AnswerMeasured(statistics=item.statistics)


class HistoryLoader:
    """The turns of a conversation that the transcript does not show yet.

    UI thread only. Of several tasks only one loads at a time.
    """

    def __init__(
        self, transcript: ChatTranscript, tools: ToolBox, messages: Sequence[ChatMessage] = ()
    ) -> None:
        self._transcript = transcript
        self._tools = tools
        self._turns = list(turns(messages))
        self._lock = asyncio.Lock()

    @property
    def has_more(self) -> bool:
        """Whether turns are left and no task is loading."""
        return bool(self._turns) and not self._lock.locked()

    async def load(self, *, while_wanted: Callable[[], bool] = lambda: True) -> None:
        """Load turns, last one first, while `while_wanted` returns true."""
        async with self._lock:
            while self._turns and while_wanted():
                with self._transcript.keep_scroll_position():
                    await self._load_turn(*self._turns.pop())
                    await self._transcript.wait_for_layout()

    async def load_near(self) -> None:
        """Load turns while the top is near."""
        await self.load(while_wanted=lambda: self._transcript.is_near_top)

    async def load_to(self, entry: ChatEntry) -> None:
        """Load turns until an entry is shown."""
        await self.load(while_wanted=lambda: self._transcript.widget_of(entry) is None)

    async def replace(self, messages: Sequence[ChatMessage]) -> None:
        """Continue with other messages; wait for a running load."""
        self._turns.clear()
        async with self._lock:
            await self._transcript.clear()
            self._turns = list(turns(messages))

    async def append(self, messages: Sequence[ChatMessage]) -> None:
        """Show messages below all others."""
        for turn in turns(messages):
            await self._show_turn(*turn, add=self._transcript.add)

    async def _load_turn(self, question: ChatMessage | None, messages: Sequence[ChatMessage]) -> None:
        await self._show_turn(question, messages, add=self._transcript.add_above)

    async def _show_turn(
        self,
        question: ChatMessage | None,
        messages: Sequence[ChatMessage],
        *,
        add: Callable[..., Awaitable[None]],
    ) -> None:
        answer = AnswerWidget(question, self._tools)
        await add(*([] if question is None else [QuestionWidget(question)]), answer)
        await answer.show(replay(messages))
        answer.finish(
            Notice("This answer is incomplete.", kind="warning")
            if messages and messages[-1].is_partial
            else None
        )
