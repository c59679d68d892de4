"""Python values that arrive in pieces: their end, and their JSON text.

Literals are rewritten token by token: nothing is evaluated, nothing can overflow. Supported are strings (both
quotes, single or triple, with Python's escapes), numbers, `True`, `False`, `None` and their JSON spellings,
lists, tuples, sets and dictionaries.
"""

import math
import re

from mlxctl.formats.parsers.json_value import parse_json, quote

_PLAIN = re.compile(r"""[^'"()\[\]{},]+""")
_PLAIN_IN_STRING = re.compile(r"""[^'"\\]+""")
_OPENER_OF = {")": "(", "]": "[", "}": "{"}
_TOKEN = re.compile(
    r"""\s*(?:(?P<string>'''(?:[^\\]|\\.)*?'''|\"\"\"(?:[^\\]|\\.)*?\"\"\"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
    r"""|(?P<word>[^\s'"\[\](){},:]+)|(?P<mark>[\[\](){},:]))""",
    re.DOTALL,
)
ESCAPE = re.compile(
    r"\\(?:(?P<hex>x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})|(?P<octal>[0-7]{1,3})|(?P<line>\r\n|[\r\n])|(?P<char>.))",
    re.DOTALL,
)
_CHARS = {
    "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "/": "/",
}  # fmt: skip
_WORDS = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}
_JSON_NUMBER = re.compile(r"-?(0|[1-9]\d{0,300})(\.\d{1,300})?([eE][+-]?\d{1,2})?", re.ASCII)
_DECIMAL = re.compile(r"[+-]?[\d_]*(?:\.[\d_]*(?:[eE][+-]?\d+)?|[eE][+-]?\d+)", re.ASCII)
_LEADING_ZERO = re.compile(r"[+-]?0\d{1,300}", re.ASCII)
_BRACKETS = {"(": "[", ")": "]"}


class PythonValueScanner:
    """Scans one argument's value up to the next comma or parenthesis.

    `is_whole` after its end; unbalanced brackets end it, too.
    """

    __slots__ = ("_open", "_pieces", "_quote", "is_whole")

    def __init__(self) -> None:
        self.is_whole = False
        self._open: list[str] = []
        self._quote = ""
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """The text of the value so far."""
        return "".join(self._pieces)

    def scan(self, text: str, start: int) -> int:
        """Scan `text` from `start`; return where it stopped.

        Unread text is passed again, followed by more.
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
        elif not self._open or (char != "," and self._open.pop() != _OPENER_OF[char]):
            self.is_whole = True
            return at
        return at + 1

    def _open_string(self, text: str, at: int) -> int:
        char, next_two = text[at], text[at + 1 : at + 3]
        if len(next_two) < 2 and next_two == char * len(next_two):
            return at
        self._quote = char * 3 if next_two == char * 2 else char
        return at + len(self._quote)


def literal_as_json(text: str) -> str | None:
    """Return a literal as JSON text, None for other text."""
    pieces: list[str] = []
    braces: list[tuple[int, bool]] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        token = _TOKEN.match(text, at, end)
        piece = None if token is None else _piece(token)
        if token is None or piece is None:
            return None
        if piece in ("]", "}") and pieces and pieces[-1] == ",":
            pieces.pop()
        if piece == ":" and braces:
            braces[-1] = (braces[-1][0], True)
        elif piece == "{":
            braces.append((len(pieces), False))
        elif piece == "}" and braces:
            opening, has_keys = braces.pop()
            if not has_keys and opening < len(pieces) - 1:
                # A set.
                pieces[opening], piece = "[", "]"
        pieces.append(piece)
        at = token.end()
    converted = _spaced(pieces)
    try:
        parse_json(converted)
    except ValueError:
        return None
    return converted


def unescape(text: str) -> str:
    """Resolve the escapes in a string's content; unknown ones stay."""
    return ESCAPE.sub(_resolve, text)


def _resolve(found: re.Match[str]) -> str:
    if found["hex"]:
        code = int(found["hex"][1:], 16)
        return chr(code) if code <= 0x10FFFF else found[0]
    if found["octal"]:
        return chr(int(found["octal"], 8))
    return "" if found["line"] else _CHARS.get(found["char"], found[0])


def _piece(token: re.Match[str]) -> str | None:
    if (string := token["string"]) is not None:
        width = 3 if string[:3] in ("'''", '"""') and len(string) >= 6 else 1
        return quote(unescape(string[width:-width]))
    if (word := token["word"]) is not None:
        return _WORDS.get(word) or _number(word)
    return _BRACKETS.get(token["mark"], token["mark"])


def _number(word: str) -> str | None:
    """Return a number as JSON: unchanged if valid, else by value."""
    if _JSON_NUMBER.fullmatch(word):
        return word
    try:
        value = (
            float(word) if _DECIMAL.fullmatch(word) else int(word, 10 if _LEADING_ZERO.fullmatch(word) else 0)
        )
    except (ValueError, OverflowError):
        return None
    return repr(value) if math.isfinite(value) else None


def _spaced(pieces: list[str]) -> str:
    """Join the tokens with the spaces of `json.dumps`."""
    return "".join(piece + " " if piece in (",", ":") else piece for piece in pieces)
