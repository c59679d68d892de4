"""The slash commands of the plain chat."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from mlxctl.chat.attachments import check_is_file, describe_attached, read_attachments
from mlxctl.chat.chat_backend import BackendModel
from mlxctl.chat.chat_commands import SlashCommand
from mlxctl.chat.chat_setup import ChatSetup
from mlxctl.chat.compaction import compact
from mlxctl.chat.conversation import ChatEntry, Conversation, describe
from mlxctl.chat.export import export, load_exported
from mlxctl.chat.external_editor import edit_text, editor_command
from mlxctl.chat.option_values import DEFAULT, describe_options, set_option
from mlxctl.chat.plain_terminal import PlainTerminal
from mlxctl.chat.session_autosave import saved_line
from mlxctl.ir.errors import MlxctlError, StoreError

_HELP = """\
Enter sends a line. A backslash at its end continues the question in the next line.
Ctrl-C stops an answer, at the prompt it quits. Ctrl-D quits.
/new               start a new chat
/messages          list the messages with their numbers
/retry [N]         answer the last question, or that of message N, again
/edit [N]          edit the last question, or message N, in $EDITOR and send it again
/delete [after] N  delete message N (a question with its answer), or all after it
/undo              delete the last question and its answer
/compact           replace the older messages by a summary, in a copy
/fork [N]          continue a copy, of the messages up to N; the original is kept
/chats, /load ID   list the saved chats, continue one; /load FILE opens an exported .json
/model [NAME]      list the models, or choose another one
/set NAME VALUE    set temperature, max_tokens, thinking, ...
/system TEXT       set the system prompt
/tools on          offer files, a shell, a clock and a calculator; each call that acts outside asks first
/attach FILE       attach an image or a PDF to the next question
/editor            write the question in $EDITOR
/stats             show or hide tokens and speed after each answer
/save FILE         save the chat as .md or .json
/quit              quit
@path sends a file with the question. A question that starts with a slash: type // instead."""

_MAX_CHATS = 20
_MAX_EXCERPT = 60


class PlainCommands:
    """State of a plain chat, and the commands that change it.

    `PlainChat` adds the answers.
    """

    def __init__(self, setup: ChatSetup, terminal: PlainTerminal, *, is_saved: bool) -> None:
        self._tools = setup.tools
        self._backend = setup.backend
        self._options = setup.options
        self._autosave = setup.autosave
        self._conversation = setup.conversation
        self._images = setup.images
        self._terminal = terminal
        self._model: BackendModel | None = None
        self._is_saved = is_saved

    async def _run_command(self, given: SlashCommand) -> str | None:
        """Run a command; return the question that it asks.

        An empty text asks the last question of the chat again.
        """
        action, argument = given.command.action, given.argument
        plain: dict[str, Callable[[str], str | None]] = {
            "help": self._help,
            "tools": self._tools_command,
            "statistics": self._toggle_statistics,
            "settings": self._set_option,
            "system": self._set_system_prompt,
            "export": self._export,
            "attach": self._attach,
            "messages": self._list_messages,
            "editor": self._edited,
        }
        waiting: dict[str, Callable[[str], Awaitable[str | None]]] = {
            "new": self._start_new,
            "models": self._choose_model,
            "sessions": self._load if argument else self._list_chats,
            "fork": self._fork,
            "delete": self._delete,
            "undo": self._undo,
            "compact": self._compact,
            "regenerate": self._retry,
            "edit_last": self._edit,
        }
        try:
            if action in plain:
                return plain[action](argument)
            if action in waiting:
                return await waiting[action](argument)
        except (MlxctlError, ValueError) as error:
            self._say(f"mlxctl: {error}")
        else:
            self._say(f"/{given.name} works in the full-screen chat only (without --plain).")
        return None

    def _say(self, text: str) -> None:
        self._terminal.print_diagnostic(text)

    async def _save(self) -> None:
        """Save the chat, if it is a saved one."""
        model = self._model
        if not self._is_saved or model is None:
            return
        try:
            await self._autosave.save(
                self._conversation.messages, model=model.name, system_prompt=self._options.system_prompt
            )
        except StoreError as error:
            self._is_saved = False
            self._say(f"The chat is not saved: {error}")

    def _tools_command(self, argument: str) -> None:
        if argument:
            self._set_option(f"tools {argument}")
        else:
            self._say(self._tools.describe(is_offered=self._options.uses_tools))

    def _help(self, _: str) -> None:
        self._say(_HELP)

    def _toggle_statistics(self, _: str) -> None:
        is_shown = self._terminal.shows_statistics = not self._terminal.shows_statistics
        self._say(f"Statistics are {'shown' if is_shown else 'hidden'} below answers.")

    def _set_option(self, text: str) -> None:
        if text:
            self._options = set_option(self._options, text)
        self._say(f"Set: {describe_options(self._options) or 'all defaults'}")

    def _set_system_prompt(self, text: str) -> None:
        if not text:
            prompt = self._options.system_prompt
            self._say(f"System prompt: {prompt}" if prompt else "No system prompt. /system TEXT sets one.")
            return
        prompt = "" if text == DEFAULT else text
        self._options = replace(self._options, system_prompt=prompt)
        self._say("The system prompt is set." if prompt else "The system prompt is removed.")

    def _export(self, name: str) -> None:
        if not name:
            raise ValueError("/save needs the name of a .md or .json file")
        model = self._model.name if self._model is not None else ""
        messages, prompt = self._conversation.messages, self._options.system_prompt
        export(Path(name), messages, model=model, system_prompt=prompt)
        self._say(f"Saved to {name}")

    def _attach(self, name: str) -> None:
        if not name:
            raise ValueError("/attach needs the name of an image or PDF file")
        existing = (*self._conversation.images, *self._images)
        attached = (*self._images, *read_attachments([Path(name)], existing=existing))
        if self._model is not None and (reason := self._model.rejection(attached)):
            raise ValueError(reason)
        self._images = attached
        self._say(f"{describe_attached(attached)} with the next question.")

    async def _choose_model(self, name: str) -> None:
        if name:
            await self._switch(name)
            return
        current = self._model.name if self._model is not None else ""
        for model in await self._backend.list_models():
            mark = "*" if model.name == current else " "
            self._say(f"{mark} {model.name}  {model.note}".rstrip())

    async def _switch(self, name: str) -> None:
        """Load another model; after an error the former one again."""
        self._model = None
        try:
            self._model = await self._backend.switch(name)
        except MlxctlError as error:
            self._say(f"mlxctl: {error}")
            self._model = await self._backend.open()
            self._say(f"{self._model.name} stays in use.")
        else:
            self._say(f"{self._model.name} is ready.")

    async def _start_new(self, _: str) -> None:
        self._autosave.start_new_chat()
        self._conversation = Conversation()
        self._images = ()
        self._say("New chat.")

    async def _list_chats(self, _: str) -> None:
        if not self._autosave.is_enabled:
            raise ValueError("chats are not saved (--no-save)")
        for summary in (await self._autosave.search())[:_MAX_CHATS]:
            self._say(saved_line(summary))

    async def _load(self, name: str) -> None:
        """Continue an exported file, or a saved chat by its id."""
        if Path(name).suffix == ".json":
            check_is_file(Path(name))
            prompt, messages = await asyncio.to_thread(load_exported, Path(name))
            self._autosave.start_new_chat()
        else:
            chat = await self._autosave.load(name)
            self._autosave.continue_chat(chat)
            prompt, messages = chat.system_prompt, list(chat.messages)
        self._options = replace(self._options, system_prompt=prompt)
        self._conversation = Conversation(messages)
        self._list_messages()

    def _list_messages(self, _: str = "") -> None:
        entries = self._conversation.entries
        for entry in entries:
            line = "" if entry.statistics is None else entry.statistics.line()
            about = f"  ({line})" if line else ""
            role = "you" if entry.is_question else "model"
            self._say(f"{entry.number:>3} {role:<5}  {_excerpt(entry)}{about}")
        if not entries:
            self._say("There is no message yet.")

    async def _fork(self, argument: str) -> None:
        if not self._autosave.is_enabled:
            raise ValueError("chats are not saved, so there is no copy to make")
        last = self._conversation.find(argument) if argument else None
        await self._save()
        self._autosave.start_new_chat()
        if last is not None:
            self._conversation.remove(self._conversation.within(last, "after"))
        await self._save()
        self._say("This is a copy now. /chats lists the original.")

    async def _compact(self, _: str) -> None:
        if self._model is None:
            raise ValueError("there is no model to write a summary")
        self._say("Writing a summary; Ctrl-C stops it.")
        writing = asyncio.ensure_future(
            compact(self._backend, self._model, self._conversation, self._options)
        )
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, writing.cancel)
        try:
            found = await writing
        except asyncio.CancelledError:
            if not writing.cancelled():
                raise
            raise ValueError("stopped; the chat is unchanged") from None
        finally:
            loop.remove_signal_handler(signal.SIGINT)
        if found is None:
            raise ValueError("there is nothing to compact yet")
        kept = ""
        if self._is_saved and self._autosave.is_enabled:
            await self._save()
            self._autosave.start_new_chat()
            kept = " /chats lists the whole chat."
        self._conversation = Conversation(found.messages)
        await self._save()
        self._say(f"{found.description}{kept}")

    async def _delete(self, argument: str) -> None:
        words = argument.split()
        is_after = words[:1] == ["after"]
        entry = self._conversation.find(" ".join(words[is_after:]))
        removed = self._conversation.within(entry, "after" if is_after else "message")
        if not removed:
            raise ValueError(f"there is nothing after message {entry.number}")
        if await self._terminal.confirm(f"Delete {describe(removed)}?"):
            self._conversation.remove(removed)
            await self._save_or_delete()

    async def _undo(self, _: str) -> None:
        question = self._last_question()
        await self._delete(f"{question.number}")

    async def _save_or_delete(self) -> None:
        if self._conversation.messages:
            await self._save()
        else:
            await self._autosave.delete_current()

    async def _retry(self, argument: str) -> str | None:
        question = self._question(argument)
        removed = self._conversation.within(question, "after")
        if any(entry.is_question for entry in removed) and not await self._terminal.confirm(
            f"Answer again? This removes {describe(removed)}."
        ):
            return None
        self._conversation.remove(removed)
        return ""

    async def _edit(self, argument: str) -> str | None:
        """Return the edited question.

        It replaces the old one and what follows it.
        """
        question = self._question(argument)
        text = self._edited(question.text)
        if text is None:
            return None
        removed = (question, *self._conversation.within(question, "after"))
        if len(removed) > 2 and not await self._terminal.confirm(f"This replaces {describe(removed)}. Send?"):
            return None
        self._conversation.remove(removed)
        self._images = question.images
        return text

    def _edited(self, text: str = "") -> str | None:
        """Return the text as the user edited it; None without a change."""
        command = editor_command()
        if command is None:
            raise StoreError("set $EDITOR to the command of an editor")
        edited = edit_text(command, text)
        if edited.strip() and edited != text:
            self._say(f"> {edited}")
            return edited
        self._say("The text is unchanged, so nothing is sent.")
        return None

    def _question(self, argument: str) -> ChatEntry:
        """Return the last question, or that of a message. Raises ValueError."""
        entry = self._conversation.find(argument) if argument else self._last_question()
        return self._conversation.question_of(entry)

    def _last_question(self) -> ChatEntry:
        question = self._conversation.last_question
        if question is None:
            raise ValueError("there is no question yet")
        return question


def _excerpt(entry: ChatEntry) -> str:
    """Return the beginning of a message, on one line."""
    calls = f"[{entry.num_calls} tool call{'s' * (entry.num_calls != 1)}] " if entry.num_calls else ""
    text = calls + " ".join(entry.text.split())
    return text if len(text) <= _MAX_EXCERPT else f"{text[:_MAX_EXCERPT]} …"
