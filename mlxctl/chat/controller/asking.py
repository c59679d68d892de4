"""Questions: asked, queued, and what follows an answer. Pure."""

from functools import partial

from mlxctl.chat.attachments import Attachment, describe_attached
from mlxctl.chat.controller import effects as do
from mlxctl.chat.controller.effects import Effects, End, Steps, Stopped
from mlxctl.chat.controller.state import ChatState
from mlxctl.chat.conversation import ChatEntry, ChatMessage, Conversation, QueuedQuestion
from mlxctl.chat.error_text import remedy, sentence
from mlxctl.chat.mentions import MentionedFiles, read_mentions
from mlxctl.ir.errors import CapacityError, EngineError, MlxctlError, StoreError


def save(chat: ChatState) -> Effects:
    """Save the chat under its id."""
    messages, prompt = chat.conversation.messages, chat.options.system_prompt
    try:
        yield do.Call(partial(chat.autosave.save, messages, model=chat.model_name, system_prompt=prompt))
    except StoreError as error:
        yield do.Notify(f"The chat is not saved: {error}", "warning")


def ask_typed(chat: ChatState, question: str, *, typed: str, shown: str | None = None) -> Effects:
    """Ask a question with the files that it names.

    Only `shown` is searched for them, by default the question. A question that cannot be asked returns to the
    input as it was `typed`.
    """
    try:
        found: MentionedFiles = yield do.in_thread(
            read_mentions, question, shown=shown or question, existing=chat.all_attachments
        )
        chat.check_question(found.attachments)
    except (StoreError, ValueError) as error:
        yield do.Restore(typed)
        raise ValueError(str(error)) from None
    if found.unknown:
        # The model would invent the content.
        is_agreed: bool = yield do.Confirm(
            f"No file {', '.join(found.unknown)}", "Send the question without it?"
        )
        if not is_agreed:
            yield do.Restore(typed)
            return
    yield do.AddToHistory(typed)
    if found.files:
        yield do.Notify(f"Sent with the question: {', '.join(found.files)}")
    yield from ask_or_queue(chat, found.text, found.attachments, shown=found.shown)


def ask_or_queue(
    chat: ChatState, text: str, attachments: tuple[Attachment, ...] = (), *, shown: str | None = None
) -> Effects:
    """Ask now, or after the running answer, with the attached files."""
    queued = QueuedQuestion(text=text, attachments=(*chat.attachments, *attachments), shown=shown)
    chat.attachments = ()
    is_waiting = chat.is_busy or bool(chat.queue)
    chat.queue.append(queued)
    if not is_waiting:
        yield from continue_queue(chat, is_complete=True)


def continue_queue(chat: ChatState, *, is_complete: bool) -> Effects:
    """Ask the queued questions.

    After a stop or an error, they move into the input.
    """
    while chat.queue and not chat.is_busy:
        if not is_complete:
            yield from _restore_questions(chat)
            return
        is_complete = yield from _ask(chat, chat.queue.popleft())


def answer_again(chat: ChatState, question: ChatEntry) -> Effects:
    """Answer a question again; what follows it is removed."""
    if chat.model is None:
        raise ValueError("There is no model to ask.")
    chat.check_idle()
    yield from leave_message(chat)
    chat.is_busy = True
    yield do.DropBelow(question)
    removed = chat.conversation.remove(chat.conversation.within(question, "after"))
    is_complete = yield from _answer(chat, before=removed)
    yield from continue_queue(chat, is_complete=is_complete)


def leave_message(chat: ChatState) -> Effects:
    """End the selection and an edit; the draft returns to the input."""
    if chat.edited is not None:
        chat.edited, chat.attachments = None, chat.draft.attachments
        yield do.SetInput(chat.draft.text)
    yield do.Select(None)


def show_chat(chat: ChatState, conversation: Conversation) -> Effects:
    """Continue with another conversation."""
    yield from leave_message(chat)
    chat.conversation = conversation
    chat.reset_metrics(conversation.num_context_tokens)
    yield do.ShowChat()


def _ask(chat: ChatState, queued: QueuedQuestion) -> Steps[bool]:
    """Ask; return whether the answer is complete.

    An edited question replaces the old one and what follows it. The state changes before the display, so that
    a question that is sent meanwhile is queued.
    """
    replaced, chat.edited = chat.replaced, None
    removed = chat.conversation.remove(replaced)
    failed = chat.conversation.failed_question
    asked = chat.conversation.add_question(queued.text, queued.attachments, shown=queued.shown)
    chat.is_busy = True
    yield do.Select(None)
    if replaced:
        chat.attachments = (*chat.draft.attachments, *chat.attachments)
        yield do.DropBelow(replaced[0])
        yield do.Drop(replaced[:1])
    if failed is not None:
        yield do.Drop((failed,))
        hint = " Up in the input shows it." if chat.has_input else ""
        yield do.Notify(f"The question that failed is replaced by this one.{hint}")
    if replaced and chat.draft.text:
        yield do.Restore(chat.draft.text)
    return (yield from _answer(chat, asked=asked, replaced=removed))


def _answer(
    chat: ChatState,
    *,
    asked: ChatMessage | None = None,
    before: tuple[ChatMessage, ...] = (),
    replaced: tuple[ChatMessage, ...] = (),
) -> Steps[bool]:
    """Answer the last question, which may be `asked` just now.

    A partial answer is kept. When nothing was generated, the previous answer `before` and what followed it
    return, or the messages that an edited question `replaced`. A rejected question returns to the input.
    """
    try:
        end: End = yield do.Answer(asked)
        is_rejected = isinstance(end, MlxctlError) and not isinstance(end, EngineError | CapacityError)
        is_lost = end is not None and bool(replaced) and not chat.conversation.is_answered
        if end is None:
            yield do.EndAnswer()
        elif before or not (is_rejected or is_lost):
            yield _kept(chat, end, before)
        else:
            yield from _return_question(chat, end, replaced)
        yield from save(chat)
    finally:
        chat.is_busy = False
    return end is None


def _kept(chat: ChatState, end: MlxctlError | Stopped, before: tuple[ChatMessage, ...]) -> do.EndAnswer:
    """Keep a partial answer, or restore the former one."""
    is_partial = chat.conversation.is_answered
    restored = () if is_partial else before
    for message in restored:
        chat.conversation.add(message)
    kept = "Partial answer kept." if is_partial else "Previous answer kept." if before else "No output."
    retry = f"{kept} {chat.key('regenerate')} retries"
    if isinstance(end, Stopped):
        edit = chat.key("edit_last")
        return do.EndAnswer(f"Stopped. {retry}, {edit} edits the question.", "warning", restored)
    if isinstance(end, EngineError | CapacityError):
        chat.conversation.mark_failed()
        return do.EndAnswer(f"{sentence(end)} {retry}.", "error", restored)
    return do.EndAnswer(f"{sentence(end)} {kept}{_remedy(chat, end)}", "error", restored)


def _return_question(
    chat: ChatState, end: MlxctlError | Stopped, replaced: tuple[ChatMessage, ...]
) -> Effects:
    """Move the last question, which has no answer, into the input."""
    question = chat.conversation.remove_last_question()
    assert question is not None, "it was asked"
    about = "Stopped." if isinstance(end, Stopped) else sentence(end)
    text = f"{about} {_returned(chat, question)}"
    text += "" if isinstance(end, Stopped) else _remedy(chat, end)
    if chat.has_input:
        # Followed by files that were attached during the answer.
        chat.attachments = (*question.attachments, *chat.attachments)
    yield from _restore_questions(chat, question.text)
    if not replaced:
        yield do.EndAnswer(text, "error")
        return
    yield do.EndAnswer()
    yield do.Drop((question,))
    for message in replaced:
        chat.conversation.add(message)
    yield do.Append(replaced)
    yield do.Write(text, "error")
    if chat.has_input:
        chat.edited = chat.conversation.entries[question.number - 1]


def _returned(chat: ChatState, question: ChatEntry) -> str:
    if chat.has_input:
        return "The question is back in the input."
    files = f" and its files ({describe_attached(question.attachments)})" if question.attachments else ""
    is_or_are = "are" if files else "is"
    return f"The question{files} {is_or_are} removed from the chat; /editor opens its text."


def _remedy(chat: ChatState, error: MlxctlError) -> str:
    has_earlier = bool(chat.conversation.messages)
    return remedy(error, has_earlier_messages=has_earlier, new_chat=chat.key("new"))


def _restore_questions(chat: ChatState, *first: str) -> Effects:
    """Move the questions `first` and the queued ones back into the input."""
    texts = [*first, *(queued.text for queued in chat.queue)]
    chat.attachments = (*chat.attachments, *(file for queued in chat.queue for file in queued.attachments))
    chat.queue.clear()
    yield do.Restore("\n\n".join(texts))
