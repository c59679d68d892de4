"""Wraps lines between words at the width of the terminal."""

import os
import re
import textwrap
from typing import TextIO

# A name and what it does, as in a table.
_TABLE_ROW = re.compile(r"\S.*?\S {2,}")


def wrapped_for(stream: TextIO, text: str) -> str:
    """Return the text wrapped for the stream's terminal, if it has one."""
    if not stream.isatty():
        return text
    try:
        width = os.get_terminal_size(stream.fileno()).columns
    except OSError:
        return text
    return wrap_lines(text, width)


def wrap_lines(text: str, width: int) -> str:
    """Return the text with lines of at most `width` columns.

    Longer words stay whole. The rest of a table's row stays in its column.
    """
    return "\n".join(_wrap(line, width) for line in text.split("\n"))


def _wrap(line: str, width: int) -> str:
    if len(line) <= width or width < 1:
        return line
    row = _TABLE_ROW.match(line)
    indent = " " * row.end() if row is not None and row.end() < width // 2 else ""
    return textwrap.fill(
        line,
        width,
        subsequent_indent=indent,
        replace_whitespace=False,
        break_long_words=False,
        break_on_hyphens=False,
    )
