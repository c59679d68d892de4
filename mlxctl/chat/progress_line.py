"""One transient line on a terminal: what an answer waits for."""

import asyncio
import os
import time
from typing import TextIO

from mlxctl.terminal_text import escape_line

_REDRAW_SECONDS = 0.5
_ERASE = "\r\x1b[2K"


class ProgressLine:
    """Shows a state and its seconds, on a terminal only."""

    def __init__(self, stream: TextIO, *, is_wanted: bool) -> None:
        self._stream = stream
        self._is_enabled = is_wanted and stream.isatty() and os.environ.get("TERM") != "dumb"
        self._state = ""
        self._since = 0.0
        self._is_drawn = False

    def show(self, state: str) -> None:
        """Show a state until `clear`.

        The seconds go on while its first word stays.
        """
        if state.split()[0] not in self._state.split()[:1]:
            self._since = time.monotonic()
        self._state = state
        self._draw()

    def clear(self) -> None:
        """Erase the line, before other text is written."""
        self._state = ""
        if self._is_drawn:
            self._is_drawn = False
            self._write(_ERASE)

    async def keep_drawing(self) -> None:
        """Count the seconds, until cancelled."""
        while self._is_enabled:
            await asyncio.sleep(_REDRAW_SECONDS)
            self._draw()

    def _draw(self) -> None:
        if self._is_enabled and self._state:
            self._is_drawn = True
            seconds = time.monotonic() - self._since
            width = _columns(self._stream) - 1
            self._write(f"{_ERASE}{escape_line(f'{self._state} {seconds:.0f} s')[:width]}")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _columns(stream: TextIO) -> int:
    try:
        # Some terminals do not say.
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
