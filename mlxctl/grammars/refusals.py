"""What llguidance says about a grammar that it does not take, as a part of one sentence."""

_MAX_CHARS = 240


def one_line(complaint: str) -> str:
    """Return a complaint of several lines as one, cut where it gets long."""
    text = " ".join(complaint.split())
    return text if len(text) <= _MAX_CHARS else text[: _MAX_CHARS - 1] + "…"
