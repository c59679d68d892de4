"""Chat as lines of text: one prompt, or a dialog.

Only answers go to standard output; thinking, tool calls and errors go to standard error.
"""

import asyncio
import io
import os
import signal
import sys
import time
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from mlxctl.errors import (
    CapacityError,
    InvalidRequest,
    MlxctlError,
    RequestError,
    ServerUnreachable,
    StoreError,
)
from mlxctl.ir import ToolCallPart, ToolResultPart
from mlxctl.tui.answer_report import AnswerReport, ReportFormat
from mlxctl.tui.chat_backend import BackendModel, retry_seconds
from mlxctl.tui.chat_commands import SlashCommand, UnknownCommand, read_input
from mlxctl.tui.chat_setup import ChatSetup
from mlxctl.tui.chat_turn import MAX_BUSY_SECONDS, ChatTurn
from mlxctl.tui.conversation import Conversation
from mlxctl.tui.export import export
from mlxctl.tui.mentions import read_mentions
from mlxctl.tui.option_values import DEFAULT, describe_options, set_option
from mlxctl.tui.plain_terminal import PlainTerminal
from mlxctl.tui.question_reader import terminal_restored
from mlxctl.tui.tools.toolbox import OPENING_SECONDS, Tool, refusal

_INTERRUPTED = 130

_HELP = """\
Enter sends a line. A backslash at its end continues the question in the next line.
Ctrl-C stops an answer, at the prompt it quits. Ctrl-D quits.
/new               start a new chat
/set NAME VALUE    set temperature, max_tokens, thinking, ...
/system TEXT       set the system prompt
/tools on          offer files, a shell, a clock and a calculator; each call that acts outside asks first
/stats             show or hide tokens and speed after each answer
/save FILE         save the chat as .md or .json
/quit              quit
@path sends a file with the question. A question that starts with a slash: type // instead."""


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
        self._tools = setup.tools
        self._backend = setup.backend
        self._options = setup.options
        self._terminal = terminal
        self._prompt = prompt
        self._is_interactive = terminal.shows_thinking = prompt is None and terminal.is_terminal
        if self._is_interactive:
            terminal.raise_limit = "/set max_tokens N"
        self._autosave = setup.autosave
        self._conversation = setup.conversation
        self._is_saved = self._is_interactive or bool(setup.conversation.messages)
        self._images = setup.images
        self._num_failures = 0
        self._is_stopped = False
        self._model_name = ""

    async def run(self) -> int:
        """Open the backend, answer every question, close.

        Raises MlxctlError when the backend cannot be opened, and InvalidRequest when the model does not
        accept the images.
        """
        try:
            tools = asyncio.create_task(self._tools.open())
            model = await self._open()
            await asyncio.wait({tools}, timeout=OPENING_SECONDS)
            if self._tools.opening:
                await self._wait_for_tools(tools)
            await tools
            for problem in self._tools.problems:
                self._terminal.print_diagnostic(f"mlxctl: {problem}")
            self._model_name = model.name
            if self._images and (reason := model.image_rejection):
                raise InvalidRequest(reason, param="image")
            if self._is_interactive:
                self._terminal.print_diagnostic(
                    f"{model.name} is ready. Enter sends, Ctrl-C stops, Ctrl-D quits, /help: more."
                )
            if self._prompt is not None:
                await self._ask(self._prompt, model)
            else:
                while (question := await self._next_question()) is not None:
                    await self._ask(question, model)
            if self._prompt is not None and self._is_stopped:
                return _INTERRUPTED
            return int(self._num_failures > 0)
        finally:
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
                    self._terminal.print_diagnostic(f"{error}. Retrying for up to {MAX_BUSY_SECONDS:.0f} s.")
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

    async def _ask(self, question: str, model: BackendModel) -> None:
        self._conversation.add_question(question, self._images)
        self._images = ()
        await self._answer_interruptibly(model)
        await self._save(model)

    async def _save(self, model: BackendModel) -> None:
        if not self._is_saved:
            return
        try:
            await self._autosave.save(
                self._conversation.messages, model=model.name, system_prompt=self._options.system_prompt
            )
        except StoreError as error:
            self._is_saved = False
            self._terminal.print_diagnostic(f"The chat is not saved: {error}")

    async def _next_question(self) -> str | None:
        """Return the next question; None at the end of the input."""
        reader = self._terminal.questions()
        while True:
            text = await reader.next()
            if text is None:
                return None
            if not text.strip():
                continue
            match read_input(text.strip()):
                case UnknownCommand(message=message):
                    self._terminal.print_diagnostic(message)
                case SlashCommand(command=command) if command.action == "app.quit":
                    return None
                case SlashCommand(command=command, name=name, argument=argument):
                    self._run_command(command.action, name, argument)
                case str() as question:
                    try:
                        return self._with_mentions(question)
                    except StoreError as error:
                        self._terminal.print_diagnostic(f"mlxctl: {error}")

    def _with_mentions(self, question: str) -> str:
        """Return the question with its @files; images go with it. Raises StoreError."""
        found = read_mentions(question, existing_images=(*self._conversation.images, *self._images))
        self._images = (*self._images, *found.images)
        for note in found.notes:
            self._terminal.print_diagnostic(note)
        return found.text

    def _run_command(self, action: str, name: str, argument: str) -> None:
        match action:
            case "help":
                self._terminal.print_diagnostic(_HELP)
            case "new":
                self._autosave.start_new_chat()
                self._conversation = Conversation()
                self._terminal.print_diagnostic("New chat.")
            case "tools" if argument:
                self._set_option(f"tools {argument}")
            case "tools":
                self._terminal.print_diagnostic(self._tools.describe(is_offered=self._options.uses_tools))
            case "statistics":
                is_shown = self._terminal.shows_statistics = not self._terminal.shows_statistics
                self._terminal.print_diagnostic(
                    f"Statistics are {'shown' if is_shown else 'hidden'} below answers."
                )
            case "settings" if argument:
                self._set_option(argument)
            case "system" if argument:
                self._options = replace(self._options, system_prompt="" if argument == DEFAULT else argument)
                self._terminal.print_diagnostic("The system prompt is set.")
            case "export" if argument:
                self._export(Path(argument))
            case "settings" | "system" | "export":
                self._terminal.print_diagnostic(f"/{name} needs an argument here; /help lists the commands.")
            case _:
                self._terminal.print_diagnostic(
                    f"/{name} works in the full-screen chat only (without --plain)."
                )

    def _set_option(self, text: str) -> None:
        try:
            self._options = set_option(self._options, text)
        except ValueError as error:
            self._terminal.print_diagnostic(str(error))
        else:
            self._terminal.print_diagnostic(f"Set: {describe_options(self._options) or 'all defaults'}")

    def _export(self, path: Path) -> None:
        messages, prompt = self._conversation.messages, self._options.system_prompt
        try:
            export(path, messages, model=self._model_name, system_prompt=prompt)
        except StoreError as error:
            self._terminal.print_diagnostic(f"mlxctl: {error}")
        else:
            self._terminal.print_diagnostic(f"Saved to {path}")

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
            self._terminal.end_stopped_answer(f"mlxctl: {error}")
            if isinstance(error, RequestError):
                # Later requests would repeat the rejected question, and be rejected as well.
                if num_images := len(self._conversation.last_images):
                    self._terminal.print_diagnostic(
                        f"The question and its images ({num_images}) are removed from the chat."
                    )
                self._conversation.remove_question()
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

    async def _confirm_call(self, call: ToolCallPart, tool: Tool | None) -> ToolResultPart | None:
        """Ask the user about a tool call; None runs it."""
        decision = await self._terminal.decide_on_call(call, tool)
        if decision == "always":
            self._tools.allow(call.name)
        return refusal(call) if decision == "refuse" else None
