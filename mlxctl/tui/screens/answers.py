"""Chat screen answers: ask, stream, stop, retry, save. UI thread only."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing, suppress

from textual import work
from textual.worker import WorkerCancelled

from mlxctl.errors import (
    CapacityError,
    ConnectionLost,
    EngineError,
    MlxctlError,
    ServerUnreachable,
    StoreError,
)
from mlxctl.ir import ImagePart
from mlxctl.tui.chat_turn import ChatTurn
from mlxctl.tui.conversation import ChatMessage, QueuedQuestion
from mlxctl.tui.event_batching import batch_events
from mlxctl.tui.gc_tuning import collect_recent
from mlxctl.tui.history_loader import HistoryLoader, replay
from mlxctl.tui.screens.actions import ChatActions
from mlxctl.tui.terminal import escape_control_characters
from mlxctl.tui.turn_updates import ToolReturned, ToolStarted, Update
from mlxctl.tui.widgets.answer import AnswerWidget
from mlxctl.tui.widgets.composer import Composer
from mlxctl.tui.widgets.notice import Notice
from mlxctl.tui.widgets.question import QuestionWidget
from mlxctl.tui.widgets.queue_line import QueueLine

# Minimum time between two updates of the transcript.
_DELTA_SECONDS = 0.05

DISCONNECTED = "server not reachable"

_IDLE_SECONDS = 1.0


MAX_QUEUED = 8
"""Questions that may wait for the end of an answer."""


class ChatAnswers(ChatActions):
    """Runs one answer at a time and keeps conversation and transcript equal.

    `ChatScreen` adds widgets, input and the connection.
    """

    _history: HistoryLoader
    _is_complete = False

    async def _ask_or_queue(self, question: str, images: tuple[ImagePart, ...]) -> None:
        """Ask now, or queue the question while an answer is running.

        Attached images go with the question.
        """
        queued = QueuedQuestion(text=question, images=(*self._take_attached(), *images))
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
        question = queued.text
        self._conversation.add_question(question, queued.images)
        await self._transcript.add(QuestionWidget(question, num_images=len(self._conversation.last_images)))
        self._save()
        self._answer_worker = self._answer()

    def action_stop(self) -> None:
        """Skip tools that are still starting, else stop the answer."""
        if self._is_waiting_for_tools:
            self._tools.skip_opening()
        elif self._answer_worker is not None and self._is_busy:
            self._answer_worker.cancel()

    async def action_regenerate(self) -> None:
        """Generate the last answer again."""
        if not self._can_change:
            return
        if self._model is None or (before := self._conversation.remove_answer()) is None:
            self.notify("There is no question to retry.", severity="warning")
        else:
            await self._load_last_question()
            await self._transcript.drop_answer()
            self._answer_worker = self._answer(before)

    async def action_edit_last(self) -> None:
        """Move the last question back into the input."""
        if not self._can_change:
            return
        if self._conversation.last_question is None:
            self.notify("There is no question to edit.", severity="warning")
        else:
            self._show_attached(self._conversation.last_images)
            text = self._conversation.remove_question() or ""
            await self._load_last_question()
            await self._transcript.drop_question()
            self.query_one(Composer).restore_question(text)

    async def action_undo(self) -> None:
        """Delete the last question and its answer."""
        if not self._can_change:
            return
        if self._conversation.last_question is None:
            self.notify("There is no question to delete.", severity="warning")
        else:
            await self._load_last_question()
            self._conversation.remove_question()
            await self._transcript.drop_question()
            if self._conversation.messages:
                self._save()
            else:
                await self._delete_saved()

    async def action_fork(self) -> None:
        """Continue a copy of this chat; the original stays saved."""
        if not self._can_change:
            return
        if not self._autosave.is_enabled:
            self.notify("Chats are not saved, so there is no copy to make.", severity="warning")
        elif not self._conversation.messages:
            self.notify("There is nothing to copy yet.", severity="warning")
        else:
            await self._save().wait()
            self._autosave.start_new_chat()
            await self._save().wait()
            self.notify("This is a copy now. /chats opens the original.")

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

    async def _load_last_question(self) -> None:
        await self._history.load(while_wanted=lambda: not self._transcript.has_question)

    @work(group="answer", exclusive=True)
    async def _answer(self, before: Sequence[ChatMessage] = ()) -> None:
        """Answer the last question.

        A partial answer is kept. When nothing was generated, the previous answer `before` is restored.
        """
        answer = AnswerWidget(self._tools)
        state = "ready"
        self._is_complete = False
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
            answer.finish(Notice(f"{error}. {kept} ^R retries.", kind="error"))
            if isinstance(error, ServerUnreachable | ConnectionLost):
                state = DISCONNECTED
        except MlxctlError as error:
            if before:
                answer.finish(Notice(f"{error}. {await self._keep(answer, before)}", kind="error"))
            else:
                answer.finish(Notice(f"{error}. The question is back in the input.", kind="error"))
                # Followed by images that were attached during the answer.
                self._show_attached((*self._conversation.last_images, *self._attached))
                self._restore_questions(self._conversation.remove_question() or "")
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
        for messages in before:
            self._conversation.add(messages)
        await answer.show(replay(before))
        return "Previous answer kept." if before else "No output."

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
