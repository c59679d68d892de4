"""Questions from a terminal or a pipe, read line by line."""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from mlxctl.chat.terminal import screen_problem


class QuestionReader:
    """Reads questions from `source`; prompts go to `diagnostics`."""

    def __init__(self, source: TextIO, answers: TextIO, diagnostics: TextIO) -> None:
        self._read = _line_reader(source, answers, diagnostics)

    async def next(self) -> str | None:
        """Return the next question, None at the end.

        It may have several lines.
        """
        return await _in_daemon_thread(lambda: _read_question(self._read))


async def _in_daemon_thread(read: Callable[[], str | None]) -> str | None:
    """Run `read` in a daemon thread.

    A read from a terminal cannot be cancelled at exit.
    """
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


def _line_reader(source: TextIO, answers: TextIO, diagnostics: TextIO) -> Callable[[str], str]:
    """Return a function that prompts and reads a line.

    It returns an empty string at the end of the input. On a capable terminal it has line editing and history.
    """
    if source is not sys.stdin or screen_problem(source, answers) is not None:

        def read_plain(prompt: str) -> str:
            if source.isatty():
                print(prompt, end="", file=diagnostics, flush=True)
            return source.readline()

        return read_plain
    # The import gives `input` line editing and history, where Python was built with readline.
    with suppress(ImportError):
        import readline  # noqa: F401

    def read_edited(prompt: str) -> str:
        try:
            return input(prompt) + "\n"
        except EOFError:
            print(file=diagnostics, flush=True)
            return ""

    return read_edited


@contextmanager
def terminal_restored(source: TextIO) -> Iterator[None]:
    """Restore the terminal attributes, which line editing changes."""
    import termios

    if not source.isatty():
        yield
        return
    attributes = termios.tcgetattr(source)
    try:
        yield
    finally:
        termios.tcsetattr(source, termios.TCSADRAIN, attributes)


def _read_question(read: Callable[[str], str]) -> str | None:
    """Read a line, and further lines while each ends with a backslash."""
    lines: list[str] = []
    while line := read(". " if lines else "> "):
        text = line.rstrip("\r\n")
        lines.append(text.removesuffix("\\"))
        if not text.endswith("\\"):
            break
    return "\n".join(lines) if lines else None
