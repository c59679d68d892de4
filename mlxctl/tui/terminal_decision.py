"""A question to the user of a terminal: yes, no, or always."""

import asyncio
import os
import termios
from typing import TextIO

from mlxctl.tui.tools.toolbox import Decision

_MAX_BYTES = 1024


async def decide(question: str, *, source: TextIO, diagnostics: TextIO, can_allow: bool) -> Decision:
    """Return what the user typed: y, yes, or with `can_allow` always.

    Everything else and the end of the input refuses. Can be cancelled. SEC: what was typed before the
    question is discarded.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        if not answer.done():
            answer.set_result(os.read(source.fileno(), _MAX_BYTES))

    termios.tcflush(source, termios.TCIFLUSH)
    choices = "always/y/N" if can_allow else "y/N"
    print(f"{question} [{choices}] ", end="", file=diagnostics, flush=True)
    loop.add_reader(source.fileno(), read)
    try:
        typed = (await answer).strip().lower()
    finally:
        loop.remove_reader(source.fileno())
    if typed == b"always" and can_allow:
        return "always"
    return "run" if typed in (b"y", b"yes") else "refuse"
