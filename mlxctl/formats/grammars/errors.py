"""Errors of grammars, as part of one sentence."""

_MAX_CHARS = 240


class UnsupportedSchema(Exception):
    """A notation cannot represent a part of a schema.

    The message is the end of a sentence.
    """


def one_line(error_text: str) -> str:
    """Return a message as one line of limited length."""
    text = " ".join(error_text.split())
    return text if len(text) <= _MAX_CHARS else text[: _MAX_CHARS - 1] + "…"
