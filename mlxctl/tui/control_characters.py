"""Control characters as symbols: a model's text may not drive the terminal."""

_SYMBOLS = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}
_SYMBOLS |= {0x7F: 0x2421} | dict.fromkeys(range(128, 160), 65533)


def visible_controls(text: str) -> str:
    """Return the text with escape and other control characters replaced by symbols; tabs and line ends stay."""
    return text.replace("\r\n", "\n").translate(_SYMBOLS)
