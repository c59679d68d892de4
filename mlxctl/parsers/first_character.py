"""A reader for formats that are written in several ways, which the body's first character tells apart."""

from collections.abc import Callable, Sequence

from mlxctl.parsers.declarations import WHITESPACE, BodyReader, BodyRejected, Signal


class FirstCharacterBody:
    """Waits for the first character that is neither white space nor one of `skips`, and has `choose` make a
    reader for it.

    The reader begins with what was skipped.
    """

    def __init__(self, choose: Callable[[str], BodyReader], *, skips: str = "") -> None:
        self._choose = choose
        self._skips = WHITESPACE + skips
        self._reader: BodyReader | None = None

    def read(self, text: str, start: int) -> tuple[int, Sequence[Signal]]:
        """Read up to the next decision of the chosen reader."""
        if self._reader is None:
            first = text[start:].lstrip(self._skips)[:1]
            if not first:
                return start, ()
            self._reader = self._choose(first)
        return self._reader.read(text, start)

    def finish(self, rest: str) -> Sequence[Signal]:
        """The last decisions of the chosen reader; without one, what there is is text."""
        return (BodyRejected(),) if self._reader is None else self._reader.finish(rest)
