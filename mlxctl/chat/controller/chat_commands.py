"""Commands on the whole chat: start, load, export, stop. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from mlxctl.chat.attachments import check_is_file
from mlxctl.chat.controller import effects as do
from mlxctl.chat.controller.asking import save, show_chat
from mlxctl.chat.controller.effects import Effects
from mlxctl.chat.controller.state import ChatState
from mlxctl.chat.conversation import ChatMessage, Conversation
from mlxctl.chat.export import export as export_chat
from mlxctl.chat.export import load_exported
from mlxctl.chat.session_autosave import SavedChat

_EXPORT = do.AskPath(
    "Export (Enter saves, Esc cancels)",
    hint=".md: text to read. .json: OpenAI messages; `mlxctl chat --open FILE` continues them.",
    proposal="chat-%Y%m%d-%H%M%S.md",
)


def start(chat: ChatState, _: str) -> Effects:
    """Start a new conversation; the current one stays saved."""
    yield do.Stop(waits=True)
    yield from save(chat)
    chat.autosave.start_new_chat()
    yield from show_chat(chat, Conversation())
    chat.attachments = ()
    yield do.Write("New chat.")


def load(chat: ChatState, argument: str) -> Effects:
    """Continue a saved chat, or an exported file as a new chat."""
    if "/" in argument or Path(argument).suffix:
        prompt, messages = yield do.in_thread(_read_exported, Path(argument))
        yield from _continue(chat, None, prompt, messages)
        return
    loading = do.Call(partial(chat.autosave.load, argument)) if argument else do.ChooseChat()
    found: SavedChat | None = yield loading
    if found is not None:
        yield from continue_saved(chat, found)


def go_to_sidebar(chat: ChatState, _: str) -> Effects:
    """Go to the list of chats; without room choose a chat."""
    has_room: bool = yield do.GoToSidebar()
    if not has_room:
        yield from load(chat, "")


def continue_saved(chat: ChatState, saved: SavedChat) -> Effects:
    """Continue a saved chat in place of this one."""
    yield from _continue(chat, saved, saved.system_prompt, saved.messages)


def _read_exported(path: Path) -> tuple[str, list[ChatMessage]]:
    check_is_file(path)
    return load_exported(path)


def _continue(
    chat: ChatState, saved: SavedChat | None, system_prompt: str, messages: Sequence[ChatMessage]
) -> Effects:
    yield do.Stop(waits=True)
    yield from save(chat)
    if saved is None:
        chat.autosave.start_new_chat()
    else:
        chat.autosave.continue_chat(saved)
    chat.options = replace(chat.options, system_prompt=system_prompt)
    yield from show_chat(chat, Conversation(messages))


def export(chat: ChatState, name: str) -> Effects:
    """Export the conversation to a file."""
    if not chat.conversation.messages:
        raise ValueError("There is nothing to export yet.")
    path: Path | None = Path(name) if name else (yield _EXPORT)
    if path is not None:
        model, prompt = chat.model_name or "no model", chat.options.system_prompt
        messages = chat.conversation.messages
        yield do.in_thread(export_chat, path, messages, model=model, system_prompt=prompt)
        yield do.Notify(f"Saved to {path}")


def stop(chat: ChatState, _: str) -> Effects:
    """Skip tools that are still starting, else stop the answer."""
    if chat.is_waiting_for_tools:
        chat.tools.skip_opening()
    elif chat.is_busy:
        yield do.Stop()
    else:
        raise ValueError("There is nothing to stop.")
