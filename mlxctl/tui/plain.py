"""Chat as lines of text: for pipes, screen readers, and terminals that cannot show more.

Each line of input is a question; a backslash at its end goes on in the next line. Answers alone go to standard output; everything
else (thinking, calls, trouble) to standard error.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import TextIO

from mlxctl.errors import InvalidRequest, MlxctlError, RequestError, StoreError
from mlxctl.ir import ImagePart, TextDelta, ThinkingDelta, ToolCallPart
from mlxctl.tui.conversation import Conversation
from mlxctl.tui.exchange import Exchange, RoundsExhausted, ThinkingEnded, ToolReturned, Update
from mlxctl.tui.keeper import Keeper
from mlxctl.tui.options import ChatOptions
from mlxctl.tui.partner import Partner, PartnerModel

_INTERRUPTED = 130


def run_plain(
    partner: Partner, options: ChatOptions, keeper: Keeper, conversation: Conversation, images: tuple[ImagePart, ...] = ()
) -> int:
    """Chat until the input ends, the first question with `images`.

    Returns the exit code: 0, 1 when a question was not answered, 130 after Ctrl-C at the prompt.
    """
    streams = {"source": sys.stdin, "answers": sys.stdout, "remarks": sys.stderr}
    chat = PlainChat(partner, options, keeper, conversation, images, **streams)
    try:
        return asyncio.run(chat.run())
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # Whoever read the answers has enough; what is still buffered has nowhere to go when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


class PlainChat:
    """One conversation over three text streams. It is kept when a person types, or when it goes on with one that was kept."""

    def __init__(
        self,
        partner: Partner,
        options: ChatOptions,
        keeper: Keeper,
        conversation: Conversation,
        images: tuple[ImagePart, ...] = (),
        *,
        source: TextIO,
        answers: TextIO,
        remarks: TextIO,
    ) -> None:
        self._partner = partner
        self._options = options
        self._source = source
        self._answers = answers
        self._remarks = remarks
        self._is_dialogue = source.isatty()
        self._keeper = keeper
        self._conversation = conversation
        self._is_kept = self._is_dialogue or bool(conversation.said)
        self._images = images
        self._num_failures = 0

    async def run(self) -> int:
        """Open the partner, answer every question, close.

        Raises MlxctlError when the partner cannot be opened, InvalidRequest when there are images and it cannot be shown any.
        """
        try:
            model = await self._partner.open()
            if self._images and (reason := model.refuses_images):
                raise InvalidRequest(reason, param="image")
            if self._is_dialogue:
                self._remark(f"{model.name} answers. A line is a question, Ctrl-C stops an answer, Ctrl-D ends.")
            while (question := await self._next_question()) is not None:
                self._conversation.ask(question, self._images)
                self._images = ()
                await self._interruptible(model)
                await self._keep(model)
            return int(self._num_failures > 0)
        finally:
            await self._partner.close()
            await self._keeper.close()

    async def _keep(self, model: PartnerModel) -> None:
        if not self._is_kept:
            return
        try:
            await self._keeper.save(self._conversation.said, model=model.name, system_prompt=self._options.system_prompt)
        except StoreError as error:
            self._is_kept = False
            self._remark(f"The chat is not kept: {error}")

    async def _next_question(self) -> str | None:
        """Return the next question that is not empty, None at the end of the input."""
        while True:
            if self._is_dialogue:
                print("> ", end="", file=self._remarks, flush=True)
            text = await _in_daemon_thread(lambda: _read_question(self._source))
            if text is None or text.strip():
                return text

    async def _interruptible(self, model: PartnerModel) -> None:
        """Answer; Ctrl-C stops the answer and keeps what came."""
        answering = asyncio.ensure_future(self._answer(model))
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, answering.cancel)
        try:
            await answering
        except asyncio.CancelledError:
            if not answering.cancelled():
                raise
            self._end_line("(stopped)")
        except MlxctlError as error:
            self._num_failures += 1
            self._end_line(f"mlxctl: {error}")
            if isinstance(error, RequestError):
                # What is refused once may be refused with every question after it, so nothing of it stays.
                if num_images := len(self._conversation.last_images):
                    self._remark(f"The question is taken back, and its images ({num_images}) with it.")
                self._conversation.take_back_question()
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    async def _answer(self, model: PartnerModel) -> None:
        exchange = Exchange(self._partner, model, self._conversation, self._options)
        async with aclosing(exchange.run()) as updates:
            async for batch in updates:
                for update in batch:
                    self._show(update)
                self._answers.flush()
        print(file=self._answers, flush=True)

    def _show(self, update: Update) -> None:
        match update:
            case TextDelta():
                print(update.text, end="", file=self._answers)
            case ThinkingDelta() if self._is_dialogue:
                print(update.text, end="", file=self._remarks, flush=True)
            case ThinkingEnded():
                self._remark(f"{chr(10) if self._is_dialogue else ''}(thought for {update.seconds:.1f} s)")
            case ToolReturned():
                self._remark(f"(demo tool {_call_line(update.call)} gave: {update.result.text})")
            case RoundsExhausted():
                self._remark("(the model keeps calling tools; it was not asked again)")
            case _:
                pass

    def _end_line(self, remark: str) -> None:
        print(file=self._answers, flush=True)
        self._remark(remark)

    def _remark(self, text: str) -> None:
        self._answers.flush()
        print(text, file=self._remarks, flush=True)


async def _in_daemon_thread(read: Callable[[], str | None]) -> str | None:
    """Run `read` beside the loop, in a thread that nobody waits for at the end: a terminal that says nothing cannot be hurried."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str | None] = loop.create_future()

    def settle(text: str | None) -> None:
        if not answer.done():
            answer.set_result(text)

    def work() -> None:
        text = read()
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, text)

    threading.Thread(target=work, name="input", daemon=True).start()
    return await answer


def _read_question(source: TextIO) -> str | None:
    lines = list(_continued_lines(source))
    return "\n".join(lines) if lines else None


def _continued_lines(source: TextIO) -> Iterator[str]:
    while line := source.readline():
        text = line.rstrip("\r\n")
        yield text.removesuffix("\\")
        if not text.endswith("\\"):
            return


def _call_line(call: ToolCallPart) -> str:
    return f"{call.name}({call.arguments})"
