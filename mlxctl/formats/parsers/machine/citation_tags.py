"""Removes citation tags from text that arrives in pieces."""

import re
from collections.abc import Iterator

# What follows the tag's name, such as `: 0:[1,2]`.
_SOURCES = r"(?::[^<>\n]{0,128})?"


class CitationTags:
    """Removes the tags of one name, such as `<co>` and `</co: 0:[1]>`.

    The cited text between them stays. Without a name all text does.
    """

    __slots__ = ("_held", "_held_start", "_incomplete", "_named", "_tag")

    def __init__(self, name: str) -> None:
        self._held = ""
        self._held_start = 0
        named = f"</?{re.escape(name)}"
        incomplete = "|".join(f"</?{re.escape(name[:length])}" for length in range(len(name)))
        self._tag = re.compile(f"{named}{_SOURCES}>") if name else None
        self._named = re.compile(named)
        self._incomplete = re.compile(rf"(?:{named}{_SOURCES}|{incomplete})\Z")

    def feed(self, text: str, start: int) -> Iterator[tuple[str, int]]:
        """Take more text, which began at `start`; yield what can be emitted.

        Each piece comes with its position. The beginning of a tag is held.
        """
        if self._tag is None:
            yield text, start
            return
        if self._held:
            text, start = self._held + text, self._held_start
        begun = self._incomplete.search(text)
        end = len(text) if begun is None else begun.start()
        self._held, self._held_start = text[end:], start + end
        at = 0
        for tag in self._tag.finditer(text, 0, end):
            yield text[at : tag.start()], start + at
            at = tag.end()
        yield text[at:end], start + at

    def release(self) -> tuple[str, int]:
        """End the run; return the held text and its position.

        The beginning of a tag with the whole name is dropped.
        """
        held, self._held = self._held, ""
        return "" if self._named.match(held) else held, self._held_start
