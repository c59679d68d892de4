"""Chat as lines of text: one prompt, or a dialog.

Only answers go to standard output; thinking, tool calls and errors go to standard error.
"""

import asyncio
import io
import os
import signal
import sys
import time
from collections.abc import Awaitable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TextIO, TypeVar

from mlxctl.chat.answer_report import AnswerReport, ReportFormat
from mlxctl.chat.chat_backend import BackendModel, retry_seconds
from mlxctl.chat.chat_commands import plain_help
from mlxctl.chat.chat_setup import ChatSetup
from mlxctl.chat.chat_turn import MAX_BUSY_SECONDS, ChatTurn
from mlxctl.chat.controller import effects as do
from mlxctl.chat.controller.asking import ask_or_queue, ask_typed, leave_message
from mlxctl.chat.controller.controller import perform_all, submit
from mlxctl.chat.controller.effects import Effect, Effects, End, Stopped
from mlxctl.chat.controller.state import ChatState
from mlxctl.chat.conversation import NEARLY_FULL, ChatEntry, context_share, describe
from mlxctl.chat.error_text import sentence
from mlxctl.chat.external_editor import edit_text
from mlxctl.chat.option_values import describe_options
from mlxctl.chat.plain_terminal import PlainTerminal
from mlxctl.chat.question_reader import terminal_restored
from mlxctl.chat.session_autosave import SessionAutosave, saved_line
from mlxctl.chat.tools.toolbox import OPENING_SECONDS, Tool, refusal
from mlxctl.ir import ToolCallPart, ToolResultPart
from mlxctl.ir.errors import (
    CapacityError,
    ConnectionLost,
    EngineError,
    InvalidRequest,
    MlxctlError,
    ServerUnreachable,
    StoreError,
)
from mlxctl.terminal_text import escape_line

_INTERRUPTED = 130
_MAX_CHATS = 20
_MAX_EXCERPT = 60

Result = TypeVar("Result")


def run_plain(setup: ChatSetup, *, prompt: str | None = None, report: ReportFormat | None = None) -> int:
    """Answer `prompt`, or chat until the input ends.

    Returns the exit code: 0, 1 when a question was not answered, 130 after Ctrl-C at the prompt.
    """
    stdin: TextIO | None = sys.stdin
    source = stdin or io.StringIO()
    terminal = PlainTerminal(source, sys.stdout, sys.stderr, report=report)
    chat = PlainChat(setup, terminal=terminal, prompt=prompt)
    try:
        with terminal_restored(source):
            return asyncio.run(chat.run())
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe: discard what the interpreter would flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


class PlainChat:
    """One conversation over a plain terminal.

    It is saved if it is a dialog, or if it continues a saved one.
    """

    def __init__(self, setup: ChatSetup, *, terminal: PlainTerminal, prompt: str | None = None) -> None:
        self._is_interactive = terminal.shows_thinking = prompt is None and terminal.is_terminal
        if self._is_interactive:
            terminal.raise_limit = "/set max_tokens N"
        self._setup = setup
        is_saved = self._is_interactive or bool(setup.conversation.messages)
        saved = setup if is_saved else replace(setup, autosave=SessionAutosave(None))
        self._chat = ChatState(saved, has_input=False)
        self._terminal = terminal
        self._prompt = prompt
        self._draft = ""
        self._num_failures = 0
        self._is_stopped = self._is_over = False

    async def run(self) -> int:
        """Open the backend, answer every question, close.

        Raises MlxctlError when the backend cannot be opened, and InvalidRequest when the model does not
        accept the images.
        """
        chat, terminal = self._chat, self._terminal
        drawing = asyncio.create_task(terminal.progress.keep_drawing())
        try:
            tools = asyncio.create_task(chat.tools.open())
            terminal.progress.show(_opening(self._chat.backend.address))
            chat.model = model = await self._open()
            chat.opened.set()
            terminal.progress.clear()
            await asyncio.wait({tools}, timeout=OPENING_SECONDS)
            if chat.tools.opening:
                await self._wait_for_tools(tools)
            await tools
            for problem in chat.tools.problems:
                self._say(f"mlxctl: {problem}")
            if reason := model.rejection(chat.attachments):
                raise InvalidRequest(reason, param="image")
            if self._is_interactive:
                name = escape_line(model.name)
                self._say(f"{name} is ready. Enter sends, Ctrl-C stops, Ctrl-D quits, /help: more.")
            await (self._converse() if self._prompt is None else self._run(ask_or_queue(chat, self._prompt)))
            if self._prompt is not None and self._is_stopped:
                return _INTERRUPTED
            return int(self._num_failures > 0)
        finally:
            drawing.cancel()
            terminal.progress.clear()
            await chat.tools.close()
            await self._chat.backend.close()
            await self._setup.autosave.close()

    async def _open(self) -> BackendModel:
        """Open the backend; wait while its server is loading.

        A server that cannot be reached is an error at once.
        """
        started, last_reason = time.monotonic(), ""
        while True:
            try:
                return await self._chat.backend.open()
            except ServerUnreachable:
                raise
            except CapacityError as error:
                if time.monotonic() - started > MAX_BUSY_SECONDS:
                    raise
                if str(error) != last_reason:
                    last_reason = str(error)
                    self._say(f"{sentence(error)} Retrying for up to {MAX_BUSY_SECONDS:.0f} s.")
                await asyncio.sleep(retry_seconds(error))

    async def _wait_for_tools(self, opening: asyncio.Task[None]) -> None:
        """Wait for the tools; in a dialog Ctrl-C ends the wait."""
        tools = self._chat.tools
        if not self._is_interactive:
            self._say(f"Waiting for {tools.opening}.")
            await opening
            return
        loop = asyncio.get_running_loop()

        def skip() -> None:
            # The terminal has echoed ^C.
            self._say("")
            tools.skip_opening()

        loop.add_signal_handler(signal.SIGINT, skip)
        self._say(f"Waiting for {tools.opening}. Ctrl-C continues without it.")
        try:
            await opening
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    async def _converse(self) -> None:
        """Answer questions and run commands until the input ends."""
        reader = self._terminal.questions()
        while not self._is_over and (text := await reader.next()) is not None:
            if text.strip():
                images = self._chat.attachments
                await self._run(submit(self._chat, text.strip()))
                if self._chat.attachments and self._chat.attachments != images:
                    self._say(f"(the next question goes {self._chat.describe_input()})")

    async def _run(self, effects: Effects) -> None:
        await perform_all(effects, self._perform)

    def _say(self, text: str) -> None:
        self._terminal.print_diagnostic(text)

    async def _perform(self, effect: Effect) -> object:
        """Return the result of an effect, if it has one here."""
        chat = self._chat
        match effect:
            case do.Answer():
                return await self._answer()
            case do.CallLong():
                if effect.can_stop:
                    self._say(f"{effect.state.capitalize()}; Ctrl-C stops it.")
                return await self._result(effect.function(), can_stop=effect.can_stop)
            case do.Confirm():
                mark = "" if effect.title.endswith("?") else "."
                text = " ".join(effect.text.split())
                return await self._terminal.confirm(f"{effect.title}{mark} {text}")
            case do.ReadInput():
                return self._draft
            case do.ChooseModel():
                for model in await chat.backend.list_models():
                    mark = "*" if model.name == effect.current else " "
                    self._say(f"{mark} {model.name}  {model.note}".rstrip())
            case do.ChooseChat():
                await self._list_chats()
            case do.EditOptions():
                self._say(f"Set: {describe_options(effect.options) or 'all defaults'}")
            case do.AskPath():
                self._say(effect.hint)
            case do.Edit():
                await self._edit(effect.question)
            case do.Open(name="editor"):
                if text := self._edited(self._draft):
                    await self._run(ask_typed(chat, text, typed=text))
            case do.Open(name="quit"):
                self._is_over = True
            case _:
                self._show(effect)
        return None

    def _show(self, effect: Effect) -> None:
        match effect:
            case do.Notify(level="error") | do.Write(kind="error") | do.Announce(kind="error"):
                self._say(f"mlxctl: {effect.text}")
            case do.Notify() | do.Write() | do.Announce():
                self._say(effect.text)
            case do.EndAnswer() if effect.text and self._is_interactive:
                is_stop = effect.kind == "warning"
                self._terminal.end_stopped_answer(f"({effect.text})" if is_stop else f"mlxctl: {effect.text}")
            case do.Select(entry=ChatEntry()) | do.ShowChat():
                self._list_messages()
            case do.ShowStatistics():
                self._terminal.shows_statistics = effect.is_shown
            case do.Restore() | do.SetInput():
                self._draft = effect.text
            case do.Open(name="help"):
                self._say(plain_help())
            case _:
                pass

    async def _edit(self, question: ChatEntry) -> None:
        """Send the question as the user edits it."""
        text = self._edited(question.text)
        replaced = self._chat.replaced
        if text and len(replaced) > 2:
            text = text if await self._terminal.confirm(f"This replaces {describe(replaced)}. Send?") else ""
        typed = ask_typed(self._chat, text, typed=text)
        await self._run(typed if text else leave_message(self._chat))

    def _edited(self, text: str) -> str:
        """Return the text as the user edited it; empty without a change."""
        edited = edit_text(text)
        if edited.strip() and edited != text:
            self._say(f"> {edited}")
            return edited
        self._say("The text is unchanged, so nothing is sent.")
        return ""

    async def _list_chats(self) -> None:
        autosave = self._chat.autosave
        if not autosave.is_enabled:
            raise StoreError("chats are not saved (--no-save)")
        for summary in (await autosave.search())[:_MAX_CHATS]:
            self._say(saved_line(summary))

    def _list_messages(self) -> None:
        for entry in self._chat.conversation.entries:
            line = "" if entry.statistics is None else entry.statistics.line()
            about = f"  ({line})" if line else ""
            role = "you" if entry.is_question else "model"
            self._say(f"{entry.number:>3} {role:<5}  {_excerpt(entry)}{about}")

    async def _result(
        self, work: Awaitable[Result], *, can_stop: bool = True
    ) -> Result | Stopped | MlxctlError:
        """Return the result or the error; Ctrl-C may stop the work."""
        working = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        if can_stop:
            loop.add_signal_handler(signal.SIGINT, working.cancel)
        try:
            return await working
        except asyncio.CancelledError:
            if not can_stop or not working.cancelled():
                raise
            return Stopped()
        except MlxctlError as error:
            return error
        finally:
            if can_stop:
                loop.remove_signal_handler(signal.SIGINT)

    async def _answer(self) -> End:
        """Answer the last question; without a dialog say how it ended."""
        end = await self._result(self._stream())
        self._is_stopped = isinstance(end, Stopped)
        if isinstance(end, MlxctlError):
            self._num_failures += 1
        if self._is_interactive or end is None:
            return end
        if isinstance(end, Stopped):
            self._terminal.end_stopped_answer("(stopped)")
        # The next run finds out whether the server still runs.
        elif self._prompt is not None and isinstance(end, ConnectionLost | ServerUnreachable):
            self._terminal.end_stopped_answer(f"mlxctl: {sentence(end)} Run the command again.")
        else:
            self._terminal.end_stopped_answer(f"mlxctl: {end}")
        return end

    async def _stream(self) -> None:
        chat = self._chat
        model = chat.model
        if model is None:
            raise EngineError("there is no model to ask")
        turn = ChatTurn(
            self._chat.backend,
            model,
            chat.conversation,
            chat.options,
            tools=chat.tools,
            confirm_call=self._confirm_call if self._terminal.is_terminal else None,
        )
        report = AnswerReport(model.name, turn.meter)
        async with aclosing(turn.run()) as updates:
            async for batch in updates:
                for update in batch:
                    report.add(update)
                    self._terminal.show(update)
                self._terminal.flush()
        self._terminal.print_report(report)
        self._warn_of_context(model)

    def _warn_of_context(self, model: BackendModel) -> None:
        """Say that the context is nearly full."""
        tokens, length = self._chat.conversation.num_context_tokens, model.context_length
        if self._is_interactive and context_share(tokens, length) >= NEARLY_FULL:
            self._say(f"({tokens:,} of {length:,} tokens of the context are used; /compact makes room)")

    async def _confirm_call(self, call: ToolCallPart, tool: Tool | None) -> ToolResultPart | None:
        """Ask the user about a tool call; None runs it."""
        decision = await self._terminal.decide_on_call(call, tool)
        if decision == "always":
            self._chat.tools.allow(call.name)
        return refusal(call) if decision == "refuse" else None


def _opening(address: str) -> str:
    """Return what a chat waits for first."""
    return f"connecting to {address}" if "://" in address else f"loading {Path(address).name}"


def _excerpt(entry: ChatEntry) -> str:
    """Return the beginning of a message, on one line."""
    calls = f"[{entry.num_calls} tool call{'s' * (entry.num_calls != 1)}] " if entry.num_calls else ""
    text = calls + " ".join(entry.text.split())
    return text if len(text) <= _MAX_EXCERPT else f"{text[:_MAX_EXCERPT]} …"
