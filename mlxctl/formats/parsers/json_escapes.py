"""Escapes in JSON text, which can hide a text from a search."""

import re

_HEX = "[0-9a-fA-F]"
_HIGH = f"u[dD][89abAB]{_HEX}{{2}}"
_LOW = f"u[dD][c-fC-F]{_HEX}{{2}}"
_ESCAPE = re.compile(rf"\\(?:({_HIGH}\\{_LOW})|u({_HEX}{{4}})|(.))", re.DOTALL)
# A high surrogate waits for the low one; `\u` without four digits is no JSON and stays.
_WHOLE = re.compile(
    rf"(?:[^\\]++|\\[^u]|\\{_HIGH}\\{_LOW}|\\{_HIGH}(?=[^\\]|.{{6}})|\\(?!{_HIGH})u{_HEX}{{4}}"
    rf"|\\u(?={_HEX}{{0,3}}(?!{_HEX}).))*",
    re.DOTALL,
)


class EscapeDecoder:
    """Replaces escapes of printable characters in JSON text that comes in pieces.

    The text stays JSON with the same value. A backslash and a quotation mark stay escaped.
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """Take the next piece; return the decoded text.

        An unfinished escape is held back.
        """
        self._held += text
        whole = _WHOLE.match(self._held)
        assert whole is not None, "the pattern takes an empty text"
        self._held = self._held[whole.end() :]
        return _ESCAPE.sub(_decoded, whole[0])

    def finish(self) -> str:
        """Return an unfinished escape as it is."""
        held, self._held = self._held, ""
        return held


def decode_escapes(text: str) -> str:
    """Return JSON text with the escapes of printable characters replaced."""
    decoder = EscapeDecoder()
    return decoder.feed(text) + decoder.finish()


def _decoded(escape: re.Match[str]) -> str:
    pair, code, other = escape.groups()
    if pair is not None:
        units = int(pair[1:5], 16) << 16 | int(pair[-4:], 16)
        char = units.to_bytes(4, "big").decode("utf-16-be")
    else:
        char = other if code is None else chr(int(code, 16))
    keeps_escape = char in '"\\' or (code is None and pair is None and other != "/") or not char.isprintable()
    return escape[0] if keeps_escape else char
