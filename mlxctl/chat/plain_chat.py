"""Chat as lines of text: one prompt, or a dialog.

Only answers go to standard output; thinking, tool calls and errors go to standard error.
"""

import asyncio
import io
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TextIO

from mlxctl.chat.answer_report import AnswerReport, ReportFormat
from mlxctl.chat.attachments import describe_attached
from mlxctl.chat.chat_backend import BackendModel, retry_seconds
from mlxctl.chat.chat_commands import SlashCommand, UnknownCommand, read_input
from mlxctl.chat.chat_setup import ChatSetup
from mlxctl.chat.chat_turn import MAX_BUSY_SECONDS, ChatTurn
from mlxctl.chat.conversation import NEARLY_FULL, ChatMessage, Conversation, context_share
from mlxctl.chat.error_text import remedy, sentence
from mlxctl.chat.mentions import read_mentions
from mlxctl.chat.plain_commands import PlainCommands
from mlxctl.chat.plain_terminal import PlainTerminal
from mlxctl.chat.question_reader import terminal_restored
from mlxctl.chat.tools.toolbox import OPENING_SECONDS, Tool, refusal
from mlxctl.ir import ToolCallPart, ToolResultPart
from mlxctl.ir.errors import (
    CapacityError,
    ConnectionLost,
    InvalidRequest,
    MlxctlError,
    RequestError,
    ServerUnreachable,
    StoreError,
)
from mlxctl.terminal_text import escape_line

_INTERRUPTED = 130


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


class PlainChat(PlainCommands):
    """One conversation over a plain terminal.

    It is saved if it is a dialog, or if it continues a saved one.
    """

    def __init__(self, setup: ChatSetup, *, terminal: PlainTerminal, prompt: str | None = None) -> None:
        self._is_interactive = terminal.shows_thinking = prompt is None and terminal.is_terminal
        super().__init__(setup, terminal, is_saved=self._is_interactive or bool(setup.conversation.messages))
        self._prompt = prompt
        if self._is_interactive:
            terminal.raise_limit = "/set max_tokens N"
        self._num_failures = 0
        self._is_stopped = False

    async def run(self) -> int:
        """Open the backend, answer every question, close.

        Raises MlxctlError when the backend cannot be opened, and InvalidRequest when the model does not
        accept the images.
        """
        drawing = asyncio.create_task(self._terminal.progress.keep_drawing())
        try:
            tools = asyncio.create_task(self._tools.open())
            self._terminal.progress.show(_opening(self._backend.address))
            self._model = model = await self._open()
            self._terminal.progress.clear()
            await asyncio.wait({tools}, timeout=OPENING_SECONDS)
            if self._tools.opening:
                await self._wait_for_tools(tools)
            await tools
            for problem in self._tools.problems:
                self._terminal.print_diagnostic(f"mlxctl: {problem}")
            if reason := model.rejection(self._images):
                raise InvalidRequest(reason, param="image")
            if self._is_interactive:
                name = escape_line(model.name)
                self._terminal.print_diagnostic(
                    f"{name} is ready. Enter sends, Ctrl-C stops, Ctrl-D quits, /help: more."
                )
            if self._prompt is not None:
                await self._ask(self._prompt)
            else:
                await self._chat()
            if self._prompt is not None and self._is_stopped:
                return _INTERRUPTED
            return int(self._num_failures > 0)
        finally:
            drawing.cancel()
            self._terminal.progress.clear()
            await self._tools.close()
            await self._backend.close()
            await self._autosave.close()

    async def _open(self) -> BackendModel:
        """Open the backend; wait while its server is loading.

        A server that cannot be reached is an error at once.
        """
        started, last_reason = time.monotonic(), ""
        while True:
            try:
                return await self._backend.open()
            except ServerUnreachable:
                raise
            except CapacityError as error:
                if time.monotonic() - started > MAX_BUSY_SECONDS:
                    raise
                if str(error) != last_reason:
                    last_reason = str(error)
                    self._terminal.print_diagnostic(
                        f"{sentence(error)} Retrying for up to {MAX_BUSY_SECONDS:.0f} s."
                    )
                await asyncio.sleep(retry_seconds(error))

    async def _wait_for_tools(self, opening: asyncio.Task[None]) -> None:
        """Wait for the tools; in a dialog Ctrl-C ends the wait."""
        if not self._is_interactive:
            self._terminal.print_diagnostic(f"Waiting for {self._tools.opening}.")
            await opening
            return
        loop = asyncio.get_running_loop()

        def skip() -> None:
            # The terminal has echoed ^C.
            self._terminal.print_diagnostic("")
            self._tools.skip_opening()

        loop.add_signal_handler(signal.SIGINT, skip)
        self._terminal.print_diagnostic(f"Waiting for {self._tools.opening}. Ctrl-C continues without it.")
        try:
            await opening
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    async def _ask(self, question: str, *, shown: str | None = None) -> bool:
        """Ask with the attached files; return whether there is an answer."""
        if self._conversation.failed_question is not None:
            self._terminal.print_diagnostic("(The question that failed is replaced by this one.)")
        self._conversation.add_question(question, self._images, shown=shown)
        self._images = ()
        return await self._answer_last()

    async def _answer_last(self) -> bool:
        """Answer the last question of the chat, and save it.

        Returns whether there is an answer, even a part of one.
        """
        if self._model is None:
            self._terminal.print_diagnostic("There is no model to ask. /model NAME chooses one.")
            return False
        num_messages = len(self._conversation.messages)
        await self._answer_interruptibly(self._model)
        await self._save()
        return len(self._conversation.messages) > num_messages

    async def _chat(self) -> None:
        """Answer questions and run commands until the input ends."""
        reader = self._terminal.questions()
        while (text := await reader.next()) is not None:
            match read_input(text.strip()):
                case "":
                    pass
                case UnknownCommand(message=message):
                    self._terminal.print_diagnostic(message)
                case SlashCommand(command=command) if command.action == "app.quit":
                    return
                case SlashCommand() as command:
                    before = self._conversation.messages
                    if (question := await self._run_command(command)) is not None:
                        await self._ask_again(question, before)
                case str():
                    await self._ask_mentioning(text)

    async def _ask_again(self, question: str, before: Sequence[ChatMessage]) -> None:
        """Ask what a command returned.

        That is a question, or "" for the last one of the chat. Without an answer the messages from `before`
        the command return.
        """
        is_answered = await (self._ask_mentioning(question) if question else self._answer_last())
        if not is_answered and len(before) > len(self._conversation.messages):
            self._conversation = Conversation(before)
            self._terminal.print_diagnostic("The earlier messages are back.")
            await self._save()

    async def _ask_mentioning(self, question: str) -> bool:
        try:
            found = read_mentions(question, existing_images=(*self._conversation.images, *self._images))
        except StoreError as error:
            self._terminal.print_diagnostic(f"mlxctl: {error}")
            return False
        if found.unknown and self._is_interactive:
            # The model would invent its content.
            missing = ", ".join(found.unknown)
            if not await self._terminal.confirm(f"No file {missing}. Send the question without it?"):
                return False
        if self._model is not None and (reason := self._model.rejection(found.images)):
            self._terminal.print_diagnostic(f"mlxctl: {reason}")
            return False
        self._images = (*self._images, *found.images)
        for note in found.notes:
            self._terminal.print_diagnostic(note)
        return await self._ask(found.text, shown=found.shown)

    async def _answer_interruptibly(self, model: BackendModel) -> None:
        """Answer; Ctrl-C cancels and keeps the partial answer."""
        answering = asyncio.ensure_future(self._answer(model))
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, answering.cancel)
        try:
            await answering
        except asyncio.CancelledError:
            if not answering.cancelled():
                raise
            self._is_stopped = True
            self._terminal.end_stopped_answer("(stopped)")
        except MlxctlError as error:
            self._num_failures += 1
            # The next run finds out whether the server still runs.
            is_lost = self._prompt is not None and isinstance(error, ConnectionLost | ServerUnreachable)
            hint = " Run the command again." if is_lost else ""
            self._terminal.end_stopped_answer(
                f"mlxctl: {sentence(error)}{hint}" if hint else f"mlxctl: {error}"
            )
            self._conversation.mark_failed()
            if isinstance(error, RequestError):
                # Later requests would repeat the rejected question, and be rejected as well.
                rejected = self._conversation.remove_last_question()
                self._say_remedy(error)
                if rejected is not None and rejected.images:
                    self._terminal.print_diagnostic(
                        f"The question and its files ({describe_attached(rejected.images)}) are removed from "
                        "the chat."
                    )
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    async def _answer(self, model: BackendModel) -> None:
        turn = ChatTurn(
            self._backend,
            model,
            self._conversation,
            self._options,
            tools=self._tools,
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

    def _say_remedy(self, error: MlxctlError) -> None:
        has_earlier = bool(self._conversation.messages)
        text = (
            remedy(error, has_earlier_messages=has_earlier, new_chat="/new") if self._is_interactive else ""
        )
        if text:
            self._terminal.print_diagnostic(text.strip())

    def _warn_of_context(self, model: BackendModel) -> None:
        """Say that the context is nearly full."""
        tokens, length = self._conversation.num_context_tokens, model.context_length
        if self._is_interactive and context_share(tokens, length) >= NEARLY_FULL:
            self._terminal.print_diagnostic(
                f"({tokens:,} of {length:,} tokens of the context are used; /compact makes room)"
            )

    async def _confirm_call(self, call: ToolCallPart, tool: Tool | None) -> ToolResultPart | None:
        """Ask the user about a tool call; None runs it."""
        decision = await self._terminal.decide_on_call(call, tool)
        if decision == "always":
            self._tools.allow(call.name)
        return refusal(call) if decision == "refuse" else None


def _opening(address: str) -> str:
    """Return what a chat waits for first."""
    return f"connecting to {address}" if "://" in address else f"loading {Path(address).name}"
