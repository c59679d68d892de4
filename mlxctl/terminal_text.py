"""Text of models, servers and files on a terminal, without control characters.

SEC: such text could set the title or the clipboard, move the cursor, or show other words than it has.
"""

import re
import sys

# Not tabs and line ends. Lone surrogates cannot be encoded: they are bytes of file names that are not UTF-8.
_CONTROLS = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
# They reorder the names and numbers beside them; texts from right to left need them.
_DIRECTION_MARKS = r"\u061c\u200e\u200f"
_IN_PROSE = re.compile(f"[{_CONTROLS}]")
_IN_MESSAGES = re.compile(f"[{_CONTROLS}{_DIRECTION_MARKS}]")
_LINE_BREAKS = str.maketrans("\n\t", "⏎→")


def escape_prose(text: str) -> str:
    """Escape all control characters but tabs, line ends and direction marks.

    For questions and answers. Characters below 32 become their symbols, others JSON escapes, which in a JSON
    document mean the same as before.
    """
    return _IN_PROSE.sub(_escape, text.replace("\r\n", "\n"))


def escape_control_characters(text: str) -> str:
    """Escape control characters and direction marks, except tabs and line ends.

    For names, messages, tables and JSON documents.
    """
    return _IN_MESSAGES.sub(_escape, text.replace("\r\n", "\n"))


def escape_line(text: str) -> str:
    """Return a text as one line: tabs and line ends become visible."""
    return escape_control_characters(text).translate(_LINE_BREAKS)


def escape_invisible_characters(text: str) -> str:
    """Escape also zero-width, tag and other invisible characters.

    For what the user decides about.
    """
    return "".join(
        character if character.isprintable() or character in "\n\t" else _json_escape(character)
        for character in escape_control_characters(text)
    )


def echo(text: object = "", *, err: bool = False, end: str = "\n") -> None:
    """Print a text on standard output or standard error, escaped.

    Commands print through this function, or through `mlxctl.cli.console`.
    """
    shown = escape_control_characters(str(text))
    print(shown, end=end, file=sys.stderr if err else sys.stdout, flush=True)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    # The symbols of Unicode begin with that of character 0.
    return chr(0x2400 + code) if code < 0x20 else _json_escape(found[0])


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[index : index + 2].hex()}" for index in range(0, len(units), 2))
