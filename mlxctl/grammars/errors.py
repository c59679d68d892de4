"""What llguidance says about a grammar that it does not take, as a part of one sentence."""

_MAX_CHARS = 240


class Unwritable(Exception):
    """A part of a schema has no values that a notation can write, or none that can be told; says why, as the
    end of a sentence.
    """


def one_line(complaint: str) -> str:
    """Return a complaint of several lines as one, cut where it gets long."""
    text = " ".join(complaint.split())
    return text if len(text) <= _MAX_CHARS else text[: _MAX_CHARS - 1] + "…"
