"""A yes-or-no question on a terminal."""

import asyncio
import os
import termios
from typing import TextIO

_MAX_BYTES = 1024


async def confirm(question: str, *, source: TextIO, diagnostics: TextIO) -> bool:
    """Return whether the user typed y or yes.

    The end of the input is a no. Can be cancelled. SEC: what was typed before the question is discarded.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        if not answer.done():
            answer.set_result(os.read(source.fileno(), _MAX_BYTES))

    termios.tcflush(source, termios.TCIFLUSH)
    print(f"{question} [y/N] ", end="", file=diagnostics, flush=True)
    loop.add_reader(source.fileno(), read)
    try:
        return (await answer).strip().lower() in (b"y", b"yes")
    finally:
        loop.remove_reader(source.fileno())
