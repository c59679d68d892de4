"""A reader for formats that differ in the block's first character."""

from collections.abc import Callable, Sequence

from mlxctl.formats.parsers.declarations import WHITESPACE, BodyReader, BodyRejected, Signal


class FirstCharacterBody:
    """Creates the reader by the first character of the block.

    White space and the characters in `skips` are skipped to find it; the reader gets them, too.
    """

    def __init__(self, choose: Callable[[str], BodyReader], *, skips: str = "") -> None:
        self._choose = choose
        self._skips = WHITESPACE + skips
        self._reader: BodyReader | None = None

    def read(self, text: str, start: int) -> tuple[int, Sequence[Signal]]:
        """Parse up to the next decision of the chosen reader."""
        if self._reader is None:
            first = text[start:].lstrip(self._skips)[:1]
            if not first:
                return start, ()
            self._reader = self._choose(first)
        return self._reader.read(text, start)

    def finish(self, rest: str) -> Sequence[Signal]:
        """Return the chosen reader's last decisions; reject without one."""
        return (BodyRejected(),) if self._reader is None else self._reader.finish(rest)
