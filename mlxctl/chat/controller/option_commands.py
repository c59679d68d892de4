"""Commands on the model, the options, the tools and the display. Pure."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from mlxctl.chat.attachments import Attachment, read_attachments
from mlxctl.chat.backend_connection import ready_text
from mlxctl.chat.chat_backend import BackendModel
from mlxctl.chat.controller import effects as do
from mlxctl.chat.controller.effects import Effects
from mlxctl.chat.controller.state import ChatState
from mlxctl.chat.conversation import ChatOptions
from mlxctl.chat.error_text import sentence
from mlxctl.chat.option_values import DEFAULT, describe_options, set_option
from mlxctl.ir.errors import MlxctlError

_ATTACH = do.AskPath(
    "Attach an image, video or PDF (Enter attaches, Esc cancels)",
    hint="PNG, JPEG, GIF, WebP, BMP, TIFF, AVIF, HEIC, MP4, MOV, WebM or PDF. Leave empty to remove "
    "attached files.",
)


def choose_model(chat: ChatState, name: str) -> Effects:
    """Choose another model for the next question."""
    _check_can_switch(chat)
    chosen: str | None = name or (yield do.ChooseModel(chat.model_name))
    if not chosen:
        return
    _check_can_switch(chat)
    before, chat.model = chat.model, None
    # Questions that are asked from now on wait.
    chat.opened.clear()
    yield do.Announce(f"Loading {chosen} …")
    found: BackendModel | MlxctlError = yield do.CallLong(
        partial(chat.backend.switch, chosen), f"loading {chosen}"
    )
    if isinstance(found, BackendModel):
        chat.model = found
        yield do.Announce(ready_text(found), replaces=True)
    else:
        yield do.Announce(f"{sentence(found)} /model chooses another model.", "error", replaces=True)
        if before is not None:
            reopened: BackendModel | MlxctlError = yield do.CallLong(
                chat.backend.open, f"loading {before.name}"
            )
            if isinstance(reopened, BackendModel):
                chat.model = reopened
                yield do.Write(f"{reopened.name} stays in use.")
    chat.opened.set()


def _check_can_switch(chat: ChatState) -> None:
    """Raise ValueError while no other model can be loaded."""
    chat.check_idle()
    if not chat.opened.is_set():
        raise ValueError("A model is still loading.")


def change_options(chat: ChatState, text: str) -> Effects:
    """Change the options for the next questions.

    Sampling values hold for later chats too.
    """
    if text:
        options: ChatOptions | None = set_option(chat.options, text)
    else:
        options = yield do.EditOptions(chat.options, _tools_note(chat))
    if options is None:
        return
    chat.options = options
    yield do.RememberOptions(options)
    if text:
        yield do.Notify(f"Set: {describe_options(options) or 'all defaults'}")


def _tools_note(chat: ChatState) -> str:
    if chat.model is not None and chat.model.supports_tools is False:
        return f"{chat.model.name} cannot call tools: its chat template does not offer them."
    return f"{chat.tools.summary}. Calls that act outside the chat ask first. /tools lists them."


def set_system_prompt(chat: ChatState, text: str) -> Effects:
    """Show the system prompt, or set it."""
    if not text:
        prompt = chat.options.system_prompt
        yield do.Write(f"System prompt: {prompt}" if prompt else "No system prompt. /system TEXT sets one.")
        return
    prompt = "" if text == DEFAULT else text
    chat.options = replace(chat.options, system_prompt=prompt)
    yield do.Notify("The system prompt is set." if prompt else "The system prompt is removed.")


def offer_tools(chat: ChatState, choice: str) -> Effects:
    """List the tools and their sources, or offer them."""
    if choice:
        yield from change_options(chat, f"tools {choice}")
    else:
        yield do.Write(chat.tools.describe(is_offered=chat.options.uses_tools))


def show_statistics(chat: ChatState, _: str) -> Effects:
    """Show or hide the statistics below answers, also in later chats."""
    chat.shows_statistics = not chat.shows_statistics
    yield do.ShowStatistics(chat.shows_statistics)
    yield do.Notify(f"Statistics are {'shown' if chat.shows_statistics else 'hidden'} below answers.")


def attach(chat: ChatState, name: str) -> Effects:
    """Attach an image, video or PDF; without a file remove all."""
    path: Path | None = Path(name) if name else (yield _ATTACH)
    if path is None:
        chat.attachments = ()
        return
    found: tuple[Attachment, ...] = yield do.in_thread(
        read_attachments, [path], existing=chat.all_attachments
    )
    chat.check_attached((*chat.attachments, *found))
    chat.attachments = (*chat.attachments, *found)


def choose_theme(_: ChatState, name: str) -> Effects:
    """Choose a color theme."""
    yield do.SetTheme(name) if name else do.Open("theme")


def monitor(chat: ChatState, _: str) -> Effects:
    """Open the monitor of the engine or server."""
    if chat.model is None:
        raise ValueError("No server to monitor yet.")
    yield do.Open("monitor")
