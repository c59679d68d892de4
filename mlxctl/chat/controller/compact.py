"""/compact: a copy in which a summary replaces older messages. Pure."""

from functools import partial

from mlxctl.chat.compaction import Compaction
from mlxctl.chat.compaction import compact as summarize
from mlxctl.chat.controller import effects as do
from mlxctl.chat.controller.asking import continue_queue, save, show_chat
from mlxctl.chat.controller.effects import Effects, Stopped
from mlxctl.chat.controller.state import ChatState
from mlxctl.chat.conversation import Conversation
from mlxctl.chat.error_text import sentence
from mlxctl.ir.errors import MlxctlError


def compact(chat: ChatState, _: str) -> Effects:
    """Let the model summarize; questions that wait continue after it."""
    if chat.model is None:
        raise ValueError("There is no model to write a summary.")
    if not chat.conversation.messages:
        raise ValueError("There is nothing to compact yet.")
    chat.check_idle()
    chat.is_busy = True
    try:
        end: Compaction | MlxctlError | Stopped = yield do.CallLong(
            partial(summarize, chat.backend, chat.model, chat.conversation, chat.options),
            "compacting",
            can_stop=True,
        )
        if isinstance(end, Compaction):
            yield from _continue(chat, end)
        elif isinstance(end, Stopped):
            yield do.Write("Stopped. The chat is unchanged.", "warning")
        else:
            yield do.Write(f"{sentence(end)} The chat is unchanged.", "error")
    finally:
        chat.is_busy = False
    yield from continue_queue(chat, is_complete=isinstance(end, Compaction))


def _continue(chat: ChatState, found: Compaction) -> Effects:
    """Continue the shorter chat; the whole one stays saved."""
    kept = ""
    if chat.autosave.is_enabled:
        yield from save(chat)
        chat.autosave.start_new_chat()
        kept = " /chats opens the whole chat."
    yield from show_chat(chat, Conversation(found.messages))
    yield do.Write(f"{found.description}{kept}")
    yield from save(chat)
