"""Splits growing Markdown into segments of bounded size.

Drawing more text then costs the same at the end of a long answer as at its start. A split happens only where
a new block begins, or at a line end inside a fenced code block: then the fence is closed and opened again in
the next segment. Text is passed on as it arrives, before its line is complete. Pure.
"""

import re
from dataclasses import dataclass, replace

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_LIST_ITEM = re.compile(r"(?:[-*+]|\d+[.)])\s")
# From this size a segment ends at the next block: prose, or unindented code after an empty line.
_MANY_CHARACTERS = 600
# From this size code is split at any line.
_MAX_CODE_CHARACTERS = 1500
# No paragraph is as long; a line that is, such as encoded data, is split anywhere.
_MAX_LINE_CHARACTERS = 20_000
_PARTS = re.compile(rf"[^\n]{{0,{_MAX_LINE_CHARACTERS - 1}}}\n|[^\n]{{1,{_MAX_LINE_CHARACTERS}}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Text for the current segment, or with `starts_segment` for a new one.

    `cuts_block` marks a segment that continues the block of the previous one.
    """

    text: str
    starts_segment: bool = False
    cuts_block: bool = False


class Segmenter:
    """Turns streamed text into pieces, with the fences that splits need."""

    def __init__(self) -> None:
        self._line = ""
        self._size = 0
        self._opening: str | None = None
        self._mark = ""
        self._after_blank = False

    def feed(self, text: str) -> list[Piece]:
        """Return the pieces to draw, in order."""
        pieces: list[Piece] = []
        for part in _PARTS.findall(text):
            if len(self._line) >= _MAX_LINE_CHARACTERS:
                pieces += self._cut_line()
            if not self._line and (cut := self._cut_before(part)):
                pieces += cut
            pieces.append(Piece(text=part))
            self._size += len(part)
            self._line += part
            if part.endswith("\n"):
                self._end_line()
        return _join(pieces)

    def _cut_line(self) -> list[Piece]:
        self._size, self._line = 0, ""
        if self._opening is None:
            return [Piece(text="", starts_segment=True)]
        return [
            Piece(text=f"\n{self._mark}\n"),
            Piece(text=self._opening, starts_segment=True, cuts_block=True),
        ]

    def _cut_before(self, line: str) -> list[Piece]:
        if self._opening is not None:
            is_new_block = self._after_blank and not line[:1].isspace()
            limit = _MANY_CHARACTERS if is_new_block else _MAX_CODE_CHARACTERS
            if self._size < limit or line.lstrip().startswith(self._mark[0]):
                return []
            self._size = 0
            return [
                Piece(text=f"{self._mark}\n"),
                Piece(text=self._opening, starts_segment=True, cuts_block=True),
            ]
        is_new_block = self._after_blank and not line[:1].isspace() and not _LIST_ITEM.match(line)
        if self._size < _MANY_CHARACTERS or not is_new_block:
            return []
        self._size = 0
        return [Piece(text="", starts_segment=True)]

    def _end_line(self) -> None:
        line, self._line = self._line, ""
        self._after_blank = not line.strip()
        match = _FENCE.match(line.rstrip("\n"))
        if match is None:
            return
        if self._opening is None:
            self._opening, self._mark = line, match[1]
        elif match[1][0] == self._mark[0] and len(match[1]) >= len(self._mark) and not match[2].strip():
            self._opening = None


def _join(pieces: list[Piece]) -> list[Piece]:
    joined: list[Piece] = []
    for piece in pieces:
        if joined and not piece.starts_segment:
            joined[-1] = replace(joined[-1], text=joined[-1].text + piece.text)
        else:
            joined.append(piece)
    return joined
