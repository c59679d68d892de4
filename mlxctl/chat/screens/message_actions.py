"""Actions on one message: select, copy, edit, retry, fork, delete.

UI thread only.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

from textual import on, work

from mlxctl.chat.chat_backend import BackendModel
from mlxctl.chat.compaction import Compaction, compact
from mlxctl.chat.conversation import ChatEntry, Conversation, QueuedQuestion, Scope, describe, numbers_of
from mlxctl.chat.error_text import sentence
from mlxctl.chat.messages import MessageClicked, TextTyped
from mlxctl.chat.screens.answers import ChatAnswers
from mlxctl.chat.terminal_app import TerminalApp
from mlxctl.chat.widgets.composer import Composer
from mlxctl.chat.widgets.message_bar import MessageBar
from mlxctl.chat.widgets.notice import Notice
from mlxctl.ir.errors import MlxctlError

_LAST = 100_000
_MAX_EXCERPT = 200


class MessageActions(ChatAnswers):
    """Adds the selected message, and the question that is being edited.

    An edited question replaces the old one, and what follows it, when it is sent.
    """

    _selected: ChatEntry | None = None
    _edited: ChatEntry | None = None
    # What the input had before the edit.
    _draft = QueuedQuestion(text="")

    async def action_messages(self) -> None:
        """Select the last message; keys act on it."""
        self._select(None)
        await self.action_select_message(_LAST)

    async def action_select_message(self, step: int) -> None:
        """Select an earlier or a later message."""
        entries = self._conversation.entries
        if not entries:
            self.notify("There is no message yet.", severity="warning")
            return
        number = (self._selected.number if self._selected is not None else 0) + step
        await self._show_entry(entries[min(max(number, 1), len(entries)) - 1])
        self.set_focus(self.query_one(MessageBar))

    async def action_delete(self) -> None:
        """Select the message to delete."""
        await self.action_messages()

    def action_close_messages(self) -> None:
        """End the selection; the scroll position stays."""
        self._select(None)
        self.set_focus(self.query_one(Composer))

    @on(TextTyped)
    def type_into_input(self, typed: TextTyped) -> None:
        """End the selection and continue the text of the input."""
        self.action_close_messages()
        self.query_one(Composer).insert(typed.text)

    @on(MessageClicked)
    async def select_clicked(self, clicked: MessageClicked) -> None:
        """Select a message; the input keeps the focus."""
        for entry in self._conversation.entries:
            if entry.question is clicked.question and entry.is_question == clicked.is_question:
                await self._show_entry(entry)

    async def action_on_message(self, name: str) -> None:
        """Do with the selected message what `name` says."""
        if self._selected is not None:
            actions: dict[str, Callable[[ChatEntry], Awaitable[None]]] = {
                "copy": self._copy,
                "edit": self._edit,
                "retry": self._retry,
                "fork": self._fork,
                "delete": self._delete,
                "delete_after": self._delete_after,
            }
            await actions[name](self._selected)

    async def action_copy(self) -> None:
        """Copy the last answer."""
        await self._run_on(self._conversation.last_answer, self._copy, "There is no answer to copy.")

    async def action_regenerate(self) -> None:
        """Generate the last answer again."""
        question = self._conversation.last_question
        await self._run_on(question, self._answer_again, "There is no question to retry.")

    async def action_edit_last(self) -> None:
        """Edit the last question, or the one before the edited one."""
        earlier = self._conversation.entries
        if self._edited is not None:
            earlier = earlier[: self._edited.number - 1]
        question = next((entry for entry in reversed(earlier) if entry.is_question), None)
        await self._run_on(question, self._edit, "There is no question to edit.")

    async def action_undo(self) -> None:
        """Delete the last question and its answer."""
        question = self._conversation.last_question
        await self._run_on(question, self._delete, "There is no question to delete.")

    async def action_compact(self) -> None:
        """Continue a copy in which a summary replaces the older messages."""
        if self._model is None:
            self.notify("There is no model to write a summary.", severity="warning")
        elif not self._conversation.messages:
            self.notify("There is nothing to compact yet.", severity="warning")
        elif self._can_change:
            self._answer_worker = self._write_summary(self._model)

    @work(group="answer", exclusive=True)
    async def _write_summary(self, model: BackendModel) -> None:
        # Questions that wait continue after it.
        self._is_complete = False
        self._set_state("compacting")
        try:
            compaction = await compact(self._backend, model, self._conversation, self._options)
            assert compaction is not None, "the chat has messages"
            await self._show_compacted(compaction)
            self._is_complete = True
        except asyncio.CancelledError:
            await self._transcript.add(Notice("Stopped. The chat is unchanged.", kind="warning"))
            raise
        except MlxctlError as error:
            await self._transcript.add(Notice(f"{sentence(error)} The chat is unchanged.", kind="error"))
        finally:
            self._set_state("ready" if self._model is not None else "no model")

    async def _show_compacted(self, compaction: Compaction) -> None:
        kept = ""
        if self._autosave.is_enabled:
            await self._save().wait()
            self._autosave.start_new_chat()
            kept = " /chats opens the whole chat."
        await self._show_conversation(Conversation(compaction.messages))
        await self._transcript.add(Notice(f"{compaction.description}{kept}"))
        self._save()

    async def action_fork(self) -> None:
        """Continue a copy of this chat; the original stays saved."""
        if not self._conversation.messages:
            self.notify("There is nothing to copy yet.", severity="warning")
        elif await self._start_copy():
            await self._save().wait()
            self.notify("This is a copy now. /chats opens the original.")

    async def _run_on(
        self, entry: ChatEntry | None, action: Callable[[ChatEntry], Awaitable[None]], problem: str
    ) -> None:
        if entry is None:
            self.notify(problem, severity="warning")
        else:
            await action(entry)

    async def _run_with_argument(self, action: str, argument: str) -> None:
        """Run a command with the number of a message."""
        actions: dict[str, Callable[[ChatEntry], Awaitable[None]]] = {
            "messages": self._show_entry,
            "copy": self._copy,
            "edit_last": self._edit,
            "regenerate": self._retry,
            "fork": self._fork,
            "delete": self._delete,
        }
        if action not in actions:
            await super()._run_with_argument(action, argument)
            return
        words = argument.split()
        run = actions[action]
        if action == "copy" and words[0] == "code":
            self._copy_code(" ".join(words[1:]))
            return
        if action == "delete" and words[0] == "after" and len(words) == 2:
            words, run = words[1:], self._delete_after
        try:
            entry = self._conversation.find(" ".join(words))
        except ValueError as error:
            self.notify(str(error), severity="warning", markup=False)
        else:
            await run(entry)
            if action == "messages":
                self.set_focus(self.query_one(MessageBar))

    async def _show_entry(self, entry: ChatEntry) -> None:
        await self._load(entry)
        self._select(entry)

    def _select(self, entry: ChatEntry | None) -> None:
        self._selected = entry
        self._transcript.select(entry)
        bar = self.query_one(MessageBar)
        if entry is None:
            if bar.has_focus:
                self.set_focus(self.query_one(Composer))
            bar.close()
        else:
            bar.open(entry, num_entries=len(self._conversation.entries))

    async def _load(self, entry: ChatEntry) -> None:
        await self._history.load(while_wanted=lambda: self._transcript.widget_of(entry) is None)

    async def _copy(self, entry: ChatEntry) -> None:
        text = entry.text
        if not text:
            self.notify("This message has no text to copy.", severity="warning")
            return
        self._copy_text(text, f"{len(text):,} characters")

    def _copy_code(self, number: str) -> None:
        """Copy a code block of the last answer; by default the last."""
        from mlxctl.chat.markdown import code_blocks

        answer = self._conversation.last_answer
        blocks = code_blocks(answer.text) if answer is not None else []
        chosen = number or f"{len(blocks)}"
        if not blocks or not chosen.isdecimal() or not 1 <= int(chosen) <= len(blocks):
            count = f"{len(blocks)} code block{'s' * (len(blocks) != 1)}" if blocks else "no code"
            self.notify(f"The last answer has {count}; /copy code N copies one.", severity="warning")
            return
        self._copy_text(blocks[int(chosen) - 1], f"code block {chosen} of {len(blocks)}")

    def _copy_text(self, text: str, what: str) -> None:
        way = cast("TerminalApp", self.app).copy_text(text)
        hint = " Some terminals do not support it." if way == "OSC 52" else ""
        self.notify(f"Copied {what} with {way}.{hint}")

    async def _edit(self, entry: ChatEntry) -> None:
        """Put a question into the input; an answer stands for its question."""
        question = self._question_of(entry)
        if question is None or not self._can_change:
            return
        composer = self.query_one(Composer)
        if self._edited is None:
            self._draft = QueuedQuestion(text=composer.question, images=self._attached)
        self._edited = question
        self._select(None)
        await self._load(question)
        self._transcript.select(question)
        composer.set_text(question.text)
        self._show_attached(question.images)
        self.set_focus(composer)

    @property
    def _replaced(self) -> tuple[ChatEntry, ...]:
        """The entries that sending the edited question removes."""
        if self._edited is None:
            return ()
        return (self._edited, *self._conversation.within(self._edited, "after"))

    def _describe_input(self) -> str:
        images = super()._describe_input()
        if self._edited is None:
            return images
        about = f"editing message {self._edited.number}{images and f', {images}'}"
        return f"{about}: Enter replaces {numbers_of(self._replaced)}, Esc cancels"

    def _cancel_edit(self) -> None:
        """Put the draft back into the input."""
        self._edited = None
        self._transcript.select(None)
        self._show_attached(self._draft.images)
        self.query_one(Composer).set_text(self._draft.text)

    async def _ask(self, queued: QueuedQuestion) -> None:
        """Ask; an edited question replaces the old one and what follows it."""
        replaced, self._edited = self._replaced, None
        self._select(None)
        self._show_attached(self._attached)
        removed = self._conversation.remove(replaced)
        if replaced:
            await self._transcript.drop_below(replaced[0])
            await self._transcript.drop(replaced[:1])
        failed = self._conversation.failed_question
        if failed is not None:
            await self._transcript.drop([failed])
            self.notify("The question that failed is replaced by this one. Up in the input shows it.")
        self._start_answer(queued, removed)
        if replaced:
            self._show_attached((*self._draft.images, *self._attached))
        if replaced and self._draft.text:
            self.query_one(Composer).restore_question(self._draft.text)

    async def _retry(self, entry: ChatEntry) -> None:
        """Generate an answer again, after a confirmation."""
        question = self._question_of(entry)
        if question is None or not self._can_change:
            return
        removed = self._conversation.within(question, "after")
        if not removed:
            await self._answer_again(question)
            return

        async def retry(is_agreed: bool | None) -> None:
            if is_agreed and self._can_change:
                await self._answer_again(question)

        self._confirm("Answer again?", f"This removes {describe(removed)}.", retry)

    async def _answer_again(self, question: ChatEntry) -> None:
        """Answer a question again; what follows it is removed."""
        if self._model is None:
            self.notify("There is no model to ask.", severity="warning")
        elif self._can_change:
            self._leave_message()
            await self._load(question)
            await self._transcript.drop_below(question)
            removed = self._conversation.remove(self._conversation.within(question, "after"))
            self._answer_worker = self._answer(removed)

    async def _fork(self, entry: ChatEntry) -> None:
        """Continue a copy that ends with an answer, or before a question.

        The question moves into the input.
        """
        if not await self._start_copy():
            return
        self._leave_message()
        await self._load(entry)
        await self._transcript.drop_below(entry)
        self._conversation.remove(self._conversation.within(entry, "after"))
        self._reset_metrics()
        if entry.is_question:
            await self._transcript.drop([entry])
            self._conversation.remove([entry])
            self._show_attached(entry.images)
            self.query_one(Composer).restore_question(entry.text)
        await self._save().wait()
        place = "before" if entry.is_question else "after"
        self.notify(f"This is a copy that ends {place} message {entry.number}. /chats opens the original.")

    async def _start_copy(self) -> bool:
        """Save this chat and use a new id; return success."""
        if not self._can_change:
            return False
        if not self._autosave.is_enabled:
            self.notify("Chats are not saved, so there is no copy to make.", severity="warning")
            return False
        await self._save().wait()
        self._autosave.start_new_chat()
        return True

    async def _delete(self, entry: ChatEntry) -> None:
        await self._delete_within(entry, "message")

    async def _delete_after(self, entry: ChatEntry) -> None:
        await self._delete_within(entry, "after")

    async def _delete_within(self, entry: ChatEntry, scope: Scope) -> None:
        """Delete after a confirmation."""
        removed = self._conversation.within(entry, scope)
        if not removed:
            self.notify(f"There is nothing after message {entry.number}.", severity="warning")
        elif self._can_change:

            async def delete(is_agreed: bool | None) -> None:
                if is_agreed and self._can_change:
                    await self._remove(removed)

            self._confirm("Delete?", f"This removes {describe(removed)}:\n\n{_excerpt(removed)}", delete)

    async def _remove(self, removed: Sequence[ChatEntry]) -> None:
        self._leave_message()
        await self._load(removed[0])
        await self._transcript.drop(removed)
        self._conversation.remove(removed)
        self._reset_metrics()
        if self._conversation.messages:
            self._save()
        else:
            await self._delete_saved()
        self.notify(f"Deleted {describe(removed)}.")

    def _confirm(self, title: str, text: str, act: Callable[[bool | None], Awaitable[None]]) -> None:
        from mlxctl.chat.screens.confirm import ConfirmScreen

        self.app.push_screen(ConfirmScreen(title, text), act)

    def _leave_message(self) -> None:
        """End the selection and an edit: the conversation is about to change."""
        if self._edited is not None:
            self._cancel_edit()
        self.action_close_messages()

    def _question_of(self, entry: ChatEntry) -> ChatEntry | None:
        try:
            return self._conversation.question_of(entry)
        except ValueError as error:
            self.notify(str(error), severity="warning")
            return None

    def _resume_edit(self, number: int) -> None:
        self._edited = self._conversation.entries[number - 1]
        self._transcript.select(self._edited)
        self._show_attached(self._attached)


def _excerpt(removed: Sequence[ChatEntry]) -> str:
    """Return the beginning of the first message that is removed."""
    text = " ".join(removed[0].text.split())
    return text if len(text) <= _MAX_EXCERPT else f"{text[:_MAX_EXCERPT]} …"
