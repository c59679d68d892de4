"""Finds the end of an argument's value in a Python call that arrives in pieces: the next comma or parenthesis
outside of it.
"""

import re

_PLAIN = re.compile(r"""[^'"()\[\]{},]+""")
_PLAIN_IN_STRING = re.compile(r"""[^'"\\]+""")
_PARTNER = {")": "(", "]": "[", "}": "{"}


class PythonValueScanner:
    """Scans one value.

    `is_whole` once it has ended; brackets that do not match end it, too, as what it is.
    """

    __slots__ = ("_open", "_pieces", "_quote", "is_whole")

    def __init__(self) -> None:
        self.is_whole = False
        self._open: list[str] = []
        self._quote = ""
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """What belongs to the value so far."""
        return "".join(self._pieces)

    def scan(self, text: str, start: int) -> int:
        """Scan `text` from `start`; return where the value ended, or what is read now: the rest comes again
        with more text.
        """
        at = start
        while at < len(text) and not self.is_whole:
            end = self._scan_string(text, at) if self._quote else self._scan_between(text, at)
            if end == at:
                break
            at = end
        self._pieces.append(text[start:at])
        return at

    def _scan_string(self, text: str, at: int) -> int:
        if plain := _PLAIN_IN_STRING.match(text, at):
            return plain.end()
        if text[at] == "\\":
            return at + 2 if at + 1 < len(text) else at
        if text.startswith(self._quote, at):
            end, self._quote = at + len(self._quote), ""
            return end
        return at if self._quote.startswith(text[at:]) else at + 1

    def _scan_between(self, text: str, at: int) -> int:
        if plain := _PLAIN.match(text, at):
            return plain.end()
        char = text[at]
        if char in "'\"":
            return self._open_string(text, at)
        if char in "([{":
            self._open.append(char)
        elif not self._open or (char != "," and self._open.pop() != _PARTNER[char]):
            self.is_whole = True
            return at
        return at + 1

    def _open_string(self, text: str, at: int) -> int:
        char, next_two = text[at], text[at + 1 : at + 3]
        if len(next_two) < 2 and next_two == char * len(next_two):
            return at
        self._quote = char * 3 if next_two == char * 2 else char
        return at + len(self._quote)
