"""Chat screen answers: ask, stream, stop, retry, save. UI thread only."""

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import aclosing, suppress

from textual import work
from textual.worker import WorkerCancelled

from mlxctl.chat.chat_turn import ChatTurn
from mlxctl.chat.conversation import ChatMessage, QueuedQuestion, turns
from mlxctl.chat.error_text import remedy, sentence
from mlxctl.chat.event_batching import batch_events
from mlxctl.chat.gc_tuning import collect_recent
from mlxctl.chat.history_loader import HistoryLoader, replay
from mlxctl.chat.mentions import MentionedFiles
from mlxctl.chat.screens.actions import ChatActions
from mlxctl.chat.turn_updates import ToolReturned, ToolStarted, Update
from mlxctl.chat.widgets.answer import AnswerWidget
from mlxctl.chat.widgets.composer import Composer
from mlxctl.chat.widgets.notice import Notice
from mlxctl.chat.widgets.question import QuestionWidget
from mlxctl.chat.widgets.queue_line import QueueLine
from mlxctl.ir.errors import (
    CapacityError,
    ConnectionLost,
    EngineError,
    MlxctlError,
    ServerUnreachable,
    StoreError,
)
from mlxctl.terminal_text import escape_control_characters

# Minimum time between two updates of the transcript.
_DELTA_SECONDS = 0.05

DISCONNECTED = "server not reachable"

_IDLE_SECONDS = 1.0


MAX_QUEUED = 8
"""Questions that may wait for the end of an answer."""


class ChatAnswers(ChatActions):
    """Runs one answer at a time and keeps conversation and transcript equal.

    `MessageActions` adds what can be done with a message, `ChatScreen` widgets, input and the connection.
    """

    _history: HistoryLoader
    _is_complete = False

    async def _ask_or_queue(self, question: MentionedFiles) -> None:
        """Ask now, or queue the question while an answer is running.

        Attached files go with the question.
        """
        images = (*self._take_attached(), *question.images)
        queued = QueuedQuestion(text=question.text, images=images, shown=question.shown)
        if self._is_busy or self._queue:
            self._queue.append(queued)
            self._show_queue()
        else:
            await self._ask(queued)

    async def _continue_queue(self) -> None:
        """Ask the next queued question.

        After a stop or an error, all move back into the input.
        """
        if self._is_busy or not self._queue:
            return
        if self._is_complete:
            queued = self._queue.popleft()
            self._show_queue()
            await self._ask(queued)
        else:
            self._restore_questions()

    def _restore_questions(self, *first: str) -> None:
        """Move the questions `first` and the queued ones back into the input."""
        texts = [*first, *(queued.text for queued in self._queue)]
        self._show_attached((*self._attached, *(image for queued in self._queue for image in queued.images)))
        self._queue.clear()
        self._show_queue()
        self.query_one(Composer).restore_question("\n\n".join(texts))

    def _take_back(self) -> str | None:
        """Remove the last queued question, attach its images, and return its text."""
        if not self._queue:
            return None
        queued = self._queue.pop()
        self._show_attached((*self._attached, *queued.images))
        self._show_queue()
        return queued.text

    def _show_queue(self) -> None:
        self.query_one(QueueLine).show([queued.text for queued in self._queue])

    async def _ask(self, queued: QueuedQuestion) -> None:
        self._start_answer(queued)

    def _start_answer(self, queued: QueuedQuestion, replaced: Sequence[ChatMessage] = ()) -> None:
        """Add a question and answer it; `replaced` return when it is rejected.

        At once, without waiting for the screen: a question that is sent meanwhile is queued.
        """
        question = self._conversation.add_question(queued.text, queued.images, shown=queued.shown)
        self._save()
        self._answer_worker = self._answer(asked=question, replaced=replaced)

    def action_stop(self) -> None:
        """Skip tools that are still starting, else stop the answer."""
        if self._is_waiting_for_tools:
            self._tools.skip_opening()
        elif self._answer_worker is not None and self._is_busy:
            self._answer_worker.cancel()

    async def _stop_and_save(self) -> None:
        """Cancel a running answer and save the conversation."""
        if self._answer_worker is not None and self._is_busy:
            self._answer_worker.cancel()
            with suppress(WorkerCancelled):
                await self._answer_worker.wait()
        await self._save().wait()

    @work(group="earlier")
    async def _load_near_history(self) -> None:
        await self._history.load(while_wanted=lambda: self._transcript.is_near_top)

    async def _load_all_history(self) -> None:
        await self._history.load()

    @work(group="answer", exclusive=True)
    async def _answer(
        self,
        before: Sequence[ChatMessage] = (),
        *,
        asked: ChatMessage | None = None,
        replaced: Sequence[ChatMessage] = (),
    ) -> None:
        """Answer the last question, which may be `asked` just now.

        A partial answer is kept. When nothing was generated, the previous answer `before` and what followed
        it are restored. A question that is rejected returns to the input, and `replaced` to the chat.
        """
        answer = AnswerWidget(self._conversation.messages[-1], self._tools)
        state = "ready"
        self._is_complete = False
        if asked is not None:
            await self._transcript.add(QuestionWidget(asked))
        await self._transcript.add(answer)
        try:
            await self._opened.wait()
            await self._stream(answer)
            answer.finish()
            self._is_complete = True
        except asyncio.CancelledError:
            kept = await self._keep(answer, before)
            answer.finish(Notice(f"Stopped. {kept} ^R retries, ^L edits the question.", kind="warning"))
            raise
        except (EngineError, CapacityError) as error:
            kept = await self._keep(answer, before)
            self._conversation.mark_failed()
            answer.finish(Notice(f"{sentence(error)} {kept} ^R retries.", kind="error"))
            if isinstance(error, ServerUnreachable | ConnectionLost):
                state = DISCONNECTED
        except MlxctlError as error:
            if before:
                kept = await self._keep(answer, before)
                answer.finish(Notice(f"{sentence(error)} {kept}{self._remedy(error)}", kind="error"))
            else:
                await self._return_question(answer, error, replaced)
        finally:
            # Otherwise the state names what the chat waits for.
            if self._opened.is_set():
                self._set_state(state if self._model is not None else "no model")
            self._save()
            self.set_timer(_IDLE_SECONDS, self._collect_when_idle)

    async def _keep(self, answer: AnswerWidget, before: Sequence[ChatMessage]) -> str:
        """Restore `before` if nothing was generated; return text for a notice."""
        if self._conversation.is_answered:
            return "Partial answer kept."
        for message in before:
            self._conversation.add(message)
        first = next(iter(turns(before)), (None, []))[1]
        await answer.show(replay(first))
        await self._history.append(before[len(first) :])
        return "Previous answer kept." if before else "No output."

    async def _return_question(
        self, answer: AnswerWidget, error: MlxctlError, replaced: Sequence[ChatMessage]
    ) -> None:
        """Move the last question, which was rejected, into the input."""
        question = self._conversation.remove_last_question()
        assert question is not None, "it was asked"
        text = f"{sentence(error)} The question is back in the input.{self._remedy(error)}"
        notice = Notice(text, kind="error")
        # Followed by images that were attached during the answer.
        self._show_attached((*question.images, *self._attached))
        self._restore_questions(question.text)
        if not replaced:
            answer.finish(notice)
            return
        await self._transcript.drop([question])
        for message in replaced:
            self._conversation.add(message)
        await self._history.append(replaced)
        await self._transcript.add(notice)
        self._resume_edit(question.number)

    def _remedy(self, error: MlxctlError) -> str:
        return remedy(error, has_earlier_messages=bool(self._conversation.messages), new_chat="^N")

    @abstractmethod
    def _resume_edit(self, number: int) -> None:
        """Continue the edit of a message; its text is in the input."""

    async def _delete_saved(self) -> None:
        try:
            await self._autosave.delete_current()
        except StoreError as error:
            self.notify(f"The saved chat is not deleted: {error}", severity="warning", markup=False)

    @work(group="save")
    async def _save(self) -> None:
        model = self._model.name if self._model is not None else ""
        try:
            await self._autosave.save(
                self._conversation.messages, model=model, system_prompt=self._options.system_prompt
            )
        except StoreError as error:
            self.notify(f"The chat is not saved: {error}", severity="warning", markup=False)

    def _collect_when_idle(self) -> None:
        if not self._is_busy:
            collect_recent()

    async def _stream(self, answer: AnswerWidget) -> None:
        if self._model is None:
            raise EngineError("there is no model to ask")
        self._set_state("answering")
        turn = ChatTurn(
            self._backend,
            self._model,
            self._conversation,
            self._options,
            tools=self._tools,
            confirm_call=self._confirm_call,
        )
        self._throughput = turn.meter
        async with aclosing(batch_events(turn.run(), seconds=_DELTA_SECONDS)) as batches:
            async for batch in batches:
                self._show_tool_state(batch)
                await answer.show(batch)

    def _show_tool_state(self, batch: Sequence[Update]) -> None:
        """Name a running tool in the status line."""
        for update in batch:
            match update:
                case ToolStarted() if self._state == "answering":
                    self._set_state(f"running {escape_control_characters(update.call.name)}")
                case ToolReturned() if self._state.startswith("running "):
                    self._set_state("answering")
                case _:
                    pass
