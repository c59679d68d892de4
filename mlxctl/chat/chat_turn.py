"""One chat turn: a question, the answers, the tool calls between.

Shared by the screen and the plain chat, which only display its updates.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from mlxctl.chat.chat_backend import BackendModel, ChatBackend, retry_seconds
from mlxctl.chat.conversation import ChatMessage, ChatOptions, Conversation
from mlxctl.chat.throughput_meter import ThroughputMeter
from mlxctl.chat.tools.toolbox import Confirm, ToolBox, error_result
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
    Updates,
)
from mlxctl.ir import (
    Collector,
    Finished,
    FinishReason,
    Message,
    StreamEvent,
    ThinkingDelta,
    ToolArgumentsDelta,
    ToolCallEnded,
    ToolCallPart,
    ToolCallStarted,
    ToolResultPart,
    Usage,
)
from mlxctl.ir.errors import CapacityError, InvalidRequest, ServerUnreachable

if TYPE_CHECKING:
    from mlxctl.inference.interface import AnswerStream

MAX_ROUNDS = 20
"""Maximum number of rounds of tool calls for one question."""

MAX_BUSY_SECONDS = 300.0
"""How long a busy or loading server is retried."""

DEMO_TOOL_HINT = "The demo model cannot correct a failed tool call. Load a real model for tools."


class ChatTurn:
    """Runs one turn, once, and adds its messages to the conversation.

    A partial answer is added too, also after an error or a cancellation. `meter` measures the turn.
    """

    def __init__(
        self,
        backend: ChatBackend,
        model: BackendModel,
        conversation: Conversation,
        options: ChatOptions,
        *,
        tools: ToolBox,
        confirm_call: Confirm | None = None,
    ) -> None:
        """`confirm_call` decides on calls that need approval or confirmation.

        Without it, no such call runs.
        """
        self.meter = ThroughputMeter()
        self._tools = tools
        self._confirm_call = confirm_call
        self._backend = backend
        self._model = model
        self._conversation = conversation
        self._options = options

    async def run(self) -> Updates:
        """Yield updates; closing the generator cancels the generation. Raises MlxctlError."""
        if self._options.uses_tools and self._model.supports_tools is False:
            raise InvalidRequest(
                f"{self._model.name} cannot call tools: its chat template has no tools. Turn tools off"
            )
        for _ in range(MAX_ROUNDS):
            answer = _AnswerBuilder()
            started: list[Update] = [RoundStarted()]
            self.meter.observe(started)
            yield started
            try:
                async with aclosing(self._generate(answer)) as batches:
                    async for updates in batches:
                        self.meter.observe(updates)
                        yield updates
            finally:
                statistics = self.meter.statistics()
                if answer.has_content:
                    self._conversation.add(replace(answer.build(), statistics=statistics))
            if statistics is not None:
                yield [AnswerMeasured(statistics=statistics)]
            calls = answer.build().message.tool_calls
            if not calls:
                return
            has_failed = False
            async for update in self._run_tools(calls):
                has_failed = has_failed or (isinstance(update, ToolReturned) and update.result.is_error)
                yield [update]
            if has_failed and self._model.is_demo:
                yield [DemoToolFailed()]
                return
        yield [RoundsExhausted()]

    async def _generate(self, answer: "_AnswerBuilder") -> Updates:
        offered = self._tools.demo_specs if self._model.is_demo else self._tools.specs
        tools = offered if self._options.uses_tools else ()
        request = self._conversation.request(self._model.name, self._options, tools)
        started = time.monotonic()
        generation: AnswerStream | None = None
        while generation is None:
            try:
                generation = await self._backend.start(request)
            except ServerUnreachable:
                raise
            except CapacityError as error:
                if time.monotonic() - started > MAX_BUSY_SECONDS:
                    raise
                yield [ServerBusy(reason=str(error))]
                await asyncio.sleep(retry_seconds(error))
        try:
            async for events in generation:
                yield [*answer.add(events), *self._notes(answer, events)]
        finally:
            generation.cancel()

    def _notes(self, answer: "_AnswerBuilder", events: list[StreamEvent]) -> list[Update]:
        """Return what the user should know at the end of an answer."""
        end = next((event for event in events if isinstance(event, Finished)), None)
        if end is None:
            return []
        number = end.usage.num_dropped_messages
        return [*([MessagesDropped(number=number)] if number else []), *self._cuts(answer, end)]

    def _cuts(self, answer: "_AnswerBuilder", end: Finished) -> list[AnswerCut]:
        """Return an AnswerCut if the answer ended too early."""
        if end.reason != "length":
            return []
        message, usage, context = answer.build().message, end.usage, self._model.context_length
        num_tokens = usage.num_prompt_tokens + usage.num_completion_tokens
        return [
            AnswerCut(
                num_tokens=usage.num_completion_tokens,
                is_thinking=bool(message.thinking) and not message.text,
                is_context_full=context is not None and num_tokens >= context,
            )
        ]

    async def _run_tools(
        self, calls: tuple[ToolCallPart, ...]
    ) -> AsyncGenerator[ToolStarted | ToolReturned, None]:
        results: list[ToolResultPart] = []
        try:
            for call in calls:
                result = await self._refusal(call)
                if result is None:
                    yield ToolStarted(call=call)
                    result = await self._tools.run(call)
                results.append(result)
                yield ToolReturned(call=call, result=results[-1])
        finally:
            # Templates need a result for each call, also when the user stops the turn.
            stopped = [error_result(call, "the user stopped this call") for call in calls[len(results) :]]
            self._conversation.add(ChatMessage(message=Message(role="tool", parts=(*results, *stopped))))

    async def _refusal(self, call: ToolCallPart) -> ToolResultPart | None:
        """Return what to send instead of running a call.

        None to run it. Asks the user where that is needed.
        """
        if not self._options.uses_tools:
            return error_result(call, "no tools are offered in this chat")
        tool = self._tools.find(call.name)
        if self._tools.asks_before(call, asks_always=self._options.asks_before_tools):
            if self._confirm_call is None:
                return error_result(call, "nothing can ask the user here, so this call was not run")
            return await self._confirm_call(call, tool)
        return None


class _AnswerBuilder:
    """Collects the events of one answer.

    Incomplete tool calls and those of a cancelled answer are dropped.
    """

    def __init__(self) -> None:
        self._events: list[StreamEvent] = []
        self._is_finished = False
        self._thinking_since: float | None = None
        self._thinking_seconds: float | None = None

    @property
    def has_content(self) -> bool:
        return bool(self._message().parts)

    def add(self, events: list[StreamEvent]) -> list[Update]:
        """Add events; return them with ThinkingEnded inserted where thinking ended."""
        updates: list[Update] = []
        for event in events:
            if isinstance(event, ThinkingDelta) and self._thinking_since is None:
                self._thinking_since = time.monotonic()
            elif not isinstance(event, ThinkingDelta) and self._thinking_since is not None:
                seconds = time.monotonic() - self._thinking_since
                self._thinking_since = None
                self._thinking_seconds = (self._thinking_seconds or 0.0) + seconds
                updates.append(ThinkingEnded(seconds=seconds))
            self._is_finished = self._is_finished or isinstance(event, Finished)
            updates.append(event)
        self._events += events
        return updates

    def build(self) -> ChatMessage:
        """Return the message, complete or partial."""
        return ChatMessage(
            message=self._message(), is_partial=not self._is_finished, thinking_seconds=self._thinking_seconds
        )

    def _message(self) -> Message:
        collector = Collector()
        for event in self._events:
            if self._is_finished or not isinstance(
                event, ToolCallStarted | ToolArgumentsDelta | ToolCallEnded
            ):
                collector.add(event)
        if not self._is_finished:
            reason: FinishReason = "stop"
            collector.add(Finished(reason=reason, usage=Usage(num_prompt_tokens=0)))
        return collector.result().message
