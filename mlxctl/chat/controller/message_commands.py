"""Commands on one message: select, copy, edit, retry, fork, delete. Pure."""

from collections.abc import Sequence

from mlxctl.chat.controller import effects as do
from mlxctl.chat.controller.asking import answer_again, leave_message, save
from mlxctl.chat.controller.effects import Effects
from mlxctl.chat.controller.state import ChatState
from mlxctl.chat.conversation import ChatEntry, QueuedQuestion, describe
from mlxctl.ir.errors import StoreError

_MAX_EXCERPT = 200


def select(chat: ChatState, number: str) -> Effects:
    """Select a message, by default the last."""
    if not chat.conversation.messages:
        raise ValueError("There is no message yet.")
    yield do.Select(chat.conversation.find(number) if number else chat.conversation.entries[-1])


def copy(chat: ChatState, argument: str) -> Effects:
    """Copy a message, or a code block of the last answer."""
    first, _, number = argument.partition(" ")
    if first == "code":
        text, what = _code(chat, number.strip())
    else:
        entry = chat.conversation.find(argument) if argument else chat.conversation.last_answer
        if entry is None:
            raise ValueError("There is no answer to copy.")
        text, what = entry.text, f"{len(entry.text):,} characters"
    if not text:
        raise ValueError("This message has no text to copy.")
    way: str = yield do.Copy(text)
    hint = " Some terminals do not support it." if way == "OSC 52" else ""
    yield do.Notify(f"Copied {what} with {way}.{hint}")


def _code(chat: ChatState, number: str) -> tuple[str, str]:
    """Return a code block of the last answer, and its name."""
    # PERF: the Markdown parser is imported after the first frame.
    from mlxctl.chat.markdown import code_blocks

    answer = chat.conversation.last_answer
    blocks = code_blocks(answer.text) if answer is not None else []
    chosen = number or f"{len(blocks)}"
    if not blocks or not chosen.isdecimal() or not 1 <= int(chosen) <= len(blocks):
        count = f"{len(blocks)} code block{'s' * (len(blocks) != 1)}" if blocks else "no code"
        raise ValueError(f"The last answer has {count}; /copy code N copies one.")
    return blocks[int(chosen) - 1], f"code block {chosen} of {len(blocks)}"


def edit(chat: ChatState, number: str) -> Effects:
    """Edit a question, by default the last.

    During an edit it is the one before. An answer stands for its question.
    """
    question = _earlier_question(chat, chat.edited) if chat.edited and not number else chat.question(number)
    chat.check_idle()
    if chat.edited is None:
        text: str = yield do.ReadInput()
        chat.draft = QueuedQuestion(text=text, attachments=chat.attachments)
    chat.edited, chat.attachments = question, question.attachments
    yield do.Select(None)
    yield do.Edit(question)


def _earlier_question(chat: ChatState, edited: ChatEntry) -> ChatEntry:
    earlier = chat.conversation.entries[: edited.number - 1]
    question = next((entry for entry in reversed(earlier) if entry.is_question), None)
    if question is None:
        raise ValueError("There is no earlier question.")
    return question


def retry(chat: ChatState, number: str) -> Effects:
    """Answer a question again, by default the last.

    With a number, what follows the question is removed after a confirmation.
    """
    question = chat.question(number)
    chat.check_idle()
    removed = chat.conversation.within(question, "after")
    if number and removed:
        is_agreed: bool = yield do.Confirm("Answer again?", f"This removes {describe(removed)}.")
        if not is_agreed:
            return
    yield from answer_again(chat, question)


def fork(chat: ChatState, number: str) -> Effects:
    """Continue a copy of this chat; the original stays saved.

    With a number the copy ends with this answer, or before this question, which moves into the input.
    """
    if not chat.conversation.messages:
        raise ValueError("There is nothing to copy yet.")
    entry = chat.conversation.find(number) if number else None
    chat.check_idle()
    if not chat.autosave.is_enabled:
        raise ValueError("Chats are not saved, so there is no copy to make.")
    yield from save(chat)
    chat.autosave.start_new_chat()
    place = ""
    if entry is not None:
        place = f" that ends {'before' if entry.is_question else 'after'} message {entry.number}"
        yield from _end_with(chat, entry)
    yield from save(chat)
    yield do.Notify(f"This is a copy{place or ' now'}. /chats opens the original.")


def _end_with(chat: ChatState, entry: ChatEntry) -> Effects:
    """Remove what follows an entry; a question moves into the input."""
    yield from leave_message(chat)
    yield do.DropBelow(entry)
    chat.conversation.remove(chat.conversation.within(entry, "after"))
    chat.reset_metrics()
    if entry.is_question:
        yield do.Drop((entry,))
        chat.conversation.remove([entry])
        chat.attachments = entry.attachments
        yield do.Restore(entry.text)


def delete(chat: ChatState, argument: str) -> Effects:
    """Delete message N, or `after N`; without a number select one."""
    first, _, number = argument.partition(" ")
    if not argument:
        yield from select(chat, "")
    elif first == "after":
        entry = chat.conversation.find(number.strip())
        yield from _delete(chat, entry, chat.conversation.within(entry, "after"))
    else:
        entry = chat.conversation.find(argument)
        yield from _delete(chat, entry, chat.conversation.within(entry, "message"))


def undo(chat: ChatState, _: str) -> Effects:
    """Delete the last question and its answer."""
    question = chat.question("")
    yield from _delete(chat, question, chat.conversation.within(question, "message"))


def _delete(chat: ChatState, entry: ChatEntry, removed: tuple[ChatEntry, ...]) -> Effects:
    """Delete entries after a confirmation."""
    if not removed:
        raise ValueError(f"There is nothing after message {entry.number}.")
    chat.check_idle()
    text = f"This removes {describe(removed)}:\n\n{_excerpt(removed)}"
    is_agreed: bool = yield do.Confirm("Delete?", text)
    if not is_agreed:
        return
    chat.check_idle()
    yield from leave_message(chat)
    yield do.Drop(removed)
    chat.conversation.remove(removed)
    chat.reset_metrics()
    if chat.conversation.messages:
        yield from save(chat)
    else:
        try:
            yield do.Call(chat.autosave.delete_current)
        except StoreError as error:
            yield do.Notify(f"The saved chat is not deleted: {error}", "warning")
    yield do.Notify(f"Deleted {describe(removed)}.")


def _excerpt(removed: Sequence[ChatEntry]) -> str:
    """Return the beginning of the first message that is removed."""
    text = " ".join(removed[0].text.split())
    return text if len(text) <= _MAX_EXCERPT else f"{text[:_MAX_EXCERPT]} …"
