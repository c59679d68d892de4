"""Terminal capabilities, standard error during a screen, and control characters."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

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
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
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


_SYMBOLS: dict[int, int | str] = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}
_SYMBOLS |= {0x7F: 0x2421} | dict.fromkeys(range(128, 160), 65533)
# SEC: they could show text in another order than it is.
_SYMBOLS |= {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}


def escape_control_characters(text: str) -> str:
    """Replace control characters except tabs and line ends by visible symbols.

    Embeddings, overrides and isolates of text direction become JSON escapes.
    """
    return text.replace("\r\n", "\n").translate(_SYMBOLS)


def escape_invisible_characters(text: str) -> str:
    """Replace also zero-width, tag and other invisible characters, by JSON escapes.

    SEC: for what the user decides about.
    """
    return "".join(
        character if character.isprintable() or character in "\n\t" else _json_escape(character)
        for character in escape_control_characters(text)
    )


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[index : index + 2].hex()}" for index in range(0, len(units), 2))
