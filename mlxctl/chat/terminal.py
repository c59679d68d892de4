"""Terminal capabilities, and standard error during a screen."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from mlxctl.state.log_format import TextFormatter

# Rich assumes 80x25 for these, and Textual would resize endlessly.
_WITHOUT_SCREEN = ("dumb", "unknown")


def screen_problem(*ends: TextIO) -> str | None:
    """Return why no full screen can be shown; None when it can."""
    if not all(end.isatty() for end in ends):
        return "input and output are not both a terminal" if len(ends) > 1 else "the output is not a terminal"
    kind = os.environ.get("TERM", "")
    return f"a {kind!r} terminal (TERM) has no full screen" if kind.lower() in _WITHOUT_SCREEN else None


def _open_log(file: Path) -> int:
    """Open the log file, or the null device when that fails."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


@contextmanager
def redirect_stderr(log_file: Path) -> Iterator[None]:
    """Send standard error to `log_file` while a screen is shown.

    Textual draws on `sys.__stderr__`, which becomes a duplicate of standard output.
    """
    stderr = os.dup(2)
    log = _open_log(log_file)
    real = sys.__stderr__
    handler = logging.StreamHandler(os.fdopen(os.dup(log), "w"))
    handler.setFormatter(TextFormatter())
    logging.getLogger("mlxctl").addHandler(handler)
    try:
        os.dup2(log, 2)
        # Textual draws through this stream.
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
