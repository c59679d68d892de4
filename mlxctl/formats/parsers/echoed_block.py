"""A reader for models that repeat a block of calls.

The repetition is the block's text and the closing marker again; both are dropped.
"""

from collections.abc import Sequence
from typing import Literal

from mlxctl.formats.parsers.declarations import WHITESPACE, BodyEnded, BodyReader, Punctuation, Signal


class EchoedBlockBody:
    """Parses a block with `reader`, then its closer and repetitions."""

    def __init__(self, reader: BodyReader, *, closer: str) -> None:
        self._reader = reader
        self._closer = closer
        self._block = ""
        self._state: Literal["block", "closer", "echo"] = "block"

    def read(self, text: str, start: int) -> tuple[int, Sequence[Signal]]:
        """Parse up to the next decision."""
        if self._state != "block":
            return self._read_after(text, start)
        end, signals = self._reader.read(text, start)
        self._block += text[start:end]
        if not isinstance(signals[-1] if signals else None, BodyEnded):
            return end, signals
        self._state = "closer"
        return end, (*signals[:-1], Punctuation())

    def finish(self, rest: str) -> Sequence[Signal]:
        """Return the reader's last decisions; drop a repetition that is cut off."""
        return self._reader.finish(rest) if self._state == "block" else (BodyEnded(),)

    def _read_after(self, text: str, start: int) -> tuple[int, Sequence[Signal]]:
        expected = self._closer if self._state == "closer" else self._block.strip(WHITESPACE) + self._closer
        found = text[start:].lstrip(WHITESPACE)
        if found.startswith(expected):
            self._state = "echo"
            return len(text) - len(found) + len(expected), (Punctuation(),)
        return start, () if expected.startswith(found) else (BodyEnded(),)
