"""JSON values that arrive in pieces: their end, without parsing.

It follows strings, escapes and brackets, so a brace or marker inside a string ends nothing. Other errors are
found by parsing the whole value once.
"""

import json
import re
from typing import Any

_PLAIN_IN_STRING = re.compile(r'[^"\\]*')
_PLAIN_BETWEEN = re.compile(r"[\s\w+\-.,:]*", re.ASCII)
_SCALAR = re.compile(r"[\w+\-.]*", re.ASCII)
_OPENER_OF = {"}": "{", "]": "["}
_CLOSER_OF = {opener: closer for closer, opener in _OPENER_OF.items()}
_SURROGATE = re.compile("[\ud800-\udfff]")


class JsonValueScanner:
    """Scans one JSON value in a growing text.

    `is_whole` after its end, `is_broken` once it cannot be JSON. A number or literal ends before the first
    character that cannot belong to it, so at least one more is needed.
    """

    __slots__ = ("_escaped", "_in_scalar", "_in_string", "_open", "_pieces", "is_broken", "is_whole")

    def __init__(self) -> None:
        self.is_whole = False
        self.is_broken = False
        self._open: list[str] = []
        self._in_string = False
        self._in_scalar = False
        self._escaped = False
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """The text of the value so far."""
        return "".join(self._pieces)

    def scan(self, text: str, start: int) -> int:
        """Scan `text` from `start`; return where it stopped."""
        at = start
        while at < len(text) and not self.is_whole and not self.is_broken:
            at = self._scan_string(text, at) if self._in_string else self._scan_between(text, at)
        self._pieces.append(text[start:at])
        return at

    @property
    def closing(self) -> str:
        """The quotation mark and brackets that complete the value."""
        mark = ("\\" * self._escaped + '"') * self._in_string
        return mark + "".join(_CLOSER_OF[opener] for opener in reversed(self._open))

    def parse(self) -> Any:
        """Return the value; raises ValueError for invalid JSON."""
        return parse_json(self.text)

    def _scan_string(self, text: str, at: int) -> int:
        if self._escaped:
            self._escaped = False
            return at + 1
        at = _end_of(_PLAIN_IN_STRING, text, at)
        if at == len(text):
            return at
        if text[at] == "\\":
            self._escaped = True
        else:
            self._in_string = False
            self.is_whole = not self._open
        return at + 1

    def _scan_between(self, text: str, at: int) -> int:
        if not self._open:
            return self._scan_outermost(text, at)
        at = _end_of(_PLAIN_BETWEEN, text, at)
        return self._take_structure(text[at], at) if at < len(text) else at

    def _scan_outermost(self, text: str, at: int) -> int:
        if text[at] in '"{[' and not self._in_scalar:
            return self._take_structure(text[at], at)
        end = _end_of(_SCALAR, text, at)
        self.is_broken = end == at and not self._in_scalar
        self.is_whole = end < len(text) and not self.is_broken
        self._in_scalar = True
        return end

    def _take_structure(self, char: str, at: int) -> int:
        if char == '"':
            self._in_string = True
        elif char in "{[":
            self._open.append(char)
        elif self._open and self._open[-1] == _OPENER_OF.get(char):
            self._open.pop()
            self.is_whole = not self._open
        else:
            self.is_broken = True
            return at
        return at + 1


def parse_json(text: str) -> Any:
    """Parse strict JSON, without NaN or Infinity.

    Raises ValueError, also for a value that is nested too deeply.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def quote(text: str) -> str:
    """Return a JSON string."""
    return f'"{escape(text)}"'


def escape(text: str) -> str:
    """Return the content of a JSON string; lone surrogates become escapes."""
    return json_text(text)[1:-1]


def json_text(value: Any) -> str:
    """Return a value as JSON text.

    "" for a value that JSON cannot represent.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        return ""
    return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def is_json_object(text: str) -> bool:
    """Whether the text is a JSON object."""
    try:
        return isinstance(parse_json(text), dict)
    except ValueError:
        return False


def missing_end(text: str) -> str | None:
    """Return what an unfinished object lacks at its end.

    None where closing what is open does not make it an object.
    """
    scanner = JsonValueScanner()
    scanner.scan(text, 0)
    closing = scanner.closing if text else "{}"
    return closing if is_json_object(text + closing) else None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at
