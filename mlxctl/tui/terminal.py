"""Whether a terminal can draw screens, and a guard that sends standard error to a file while one is drawn."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

# Rich takes these for 80 by 25 whatever their size is, and Textual would resize for ever.
_WITHOUT_SCREEN = ("dumb", "unknown")


def screen_problem(*ends: TextIO) -> str | None:
    """Return why no screen can be drawn on these streams; None when one can."""
    if not all(end.isatty() for end in ends):
        return "input and output are not both a terminal" if len(ends) > 1 else "the output is not a terminal"
    kind = os.environ.get("TERM", "")
    return (
        f"a terminal of the kind {kind!r} (TERM) shows no screens"
        if kind.lower() in _WITHOUT_SCREEN
        else None
    )


def _open_log(file: Path) -> int:
    """Open the log; where that cannot be, nothing is logged, and the screen comes up all the same."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


@contextmanager
def redirect_stderr(log_file: Path) -> Iterator[None]:
    """Have file descriptor 2 mean `log_file`, and the screen be drawn on the terminal that standard output
    is.
    """
    stderr = os.dup(2)
    log = _open_log(log_file)
    real = sys.__stderr__
    handler = logging.StreamHandler(os.fdopen(os.dup(log), "w"))
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger("mlxctl").addHandler(handler)
    try:
        os.dup2(log, 2)
        # Textual draws through this stream, which therefore has to be the screen.
        sys.__stderr__ = os.fdopen(os.dup(1), "w", encoding="utf-8")  # type: ignore[misc]
        yield
    finally:
        drawn = sys.__stderr__
        assert drawn is not None, "it was just opened"
        sys.__stderr__ = real  # type: ignore[misc]
        drawn.close()
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(log)
        logging.getLogger("mlxctl").removeHandler(handler)
        handler.close()


_SYMBOLS = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}
_SYMBOLS |= {0x7F: 0x2421} | dict.fromkeys(range(128, 160), 65533)


def escape_control_characters(text: str) -> str:
    """Return the text with escape and other control characters replaced by symbols; tabs and line ends stay."""
    return text.replace("\r\n", "\n").translate(_SYMBOLS)
