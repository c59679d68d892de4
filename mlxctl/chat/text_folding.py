"""Long text as one mark that tells its size. Pure."""

_MAX_CHARACTERS = 4000
_MAX_LINES = 60


def is_long(text: str) -> bool:
    """Whether a mark is shown in place of this text."""
    return len(text) > _MAX_CHARACTERS or text.count("\n") >= _MAX_LINES


def mark_of(name: str, text: str) -> str:
    """Return the mark of a text: `[paste 1: 90 lines, 4,321 characters]`."""
    num_lines = text.count("\n") + 1
    return f"[{name}: {num_lines:,} line{'s' * (num_lines > 1)}, {len(text):,} characters]"
