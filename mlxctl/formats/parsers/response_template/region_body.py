"""Reads one call of a region that a template delimits. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlxctl.formats.parsers.declarations import (
    BodyEnded,
    BodyRejected,
    CallArguments,
    CallEnded,
    CallStarted,
    Opening,
    Signal,
)
from mlxctl.formats.parsers.markers import MarkerSet
from mlxctl.formats.parsers.response_template.field_content import CallTransform, ContentParser
from mlxctl.formats.parsers.response_template.linear_pattern import LinearPattern, Scanner

# A call with a larger header or body is text: nothing is emitted before its end.
_MAX_HEADER_CHARS = 1024
_MAX_BODY_CHARS = 4_000_000
_REJECTED: tuple[Signal, ...] = (BodyRejected(),)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRegion:
    """How a template delimits calls, and what it makes of their text.

    `opening` is a pattern that begins with an opening marker; without it the marker is all. Without `closers`
    and `closing` the region goes on to the answer's end.
    """

    opening: LinearPattern | None
    closers: tuple[str, ...]
    closing: LinearPattern | None
    content: ContentParser
    transform: CallTransform


class RegionBody:
    """Reads a region from its marker on.

    Its calls are certain at its end. Text is consumed at the end only, since a pattern decides where that is.
    """

    def __init__(self, region: CallRegion, opening: Opening) -> None:
        self._region, self._tools = region, opening.tools
        self._captures: Mapping[str, str] = {}
        self._num_seen = 0
        # Where the body begins, once the header is whole.
        self._begin = 0
        self._marker_length = len(opening.marker)
        self._header: Scanner | None = None
        if region.opening is not None:
            self._header = Scanner(region.opening, is_anchored=True)
            self._header.feed(opening.marker)
        self._closers = MarkerSet(region.closers)
        self._longest = max(map(len, region.closers), default=0)
        self._end = None if region.closing is None else Scanner(region.closing)

    def read(self, text: str, start: int) -> tuple[int, Sequence[Signal]]:
        """Read what is new in the text."""
        text = text[start:]
        new, before = text[self._num_seen :], self._num_seen
        self._num_seen = len(text)
        if self._header is not None:
            self._header.feed(new)
            if not self._take_header(self._header):
                is_over = self._header.is_dead or len(text) > _MAX_HEADER_CHARS
                return start, (_REJECTED if is_over else ())
            self._header = None
            new, before = text[self._begin :], self._begin
        found = self._find_end(text, new, before)
        if found is None:
            return start, (_REJECTED if len(text) > _MAX_BODY_CHARS else ())
        return start + found[1], self._signals(text[self._begin : found[0]])

    def finish(self, rest: str) -> Sequence[Signal]:
        """Read what is left: an open region ends with the answer."""
        new = rest[self._num_seen :]
        if self._header is not None:
            self._header.feed(new)
            self._header.finish()
            if not self._take_header(self._header):
                return _REJECTED
            new = rest[self._begin :]
        body_end = len(rest)
        if self._end is not None:
            self._end.feed(new)
            if self._end.finish() is not None:
                body_end = self._take_end(self._end)[0]
        elif closer := self._closers.find(rest, self._begin, is_final=True):
            body_end = closer.start()
        return self._signals(rest[self._begin : body_end])

    def _take_header(self, header: Scanner) -> bool:
        """Whether the header is whole; the body then begins after it."""
        if header.match is not None:
            self._captures = header.match.groups
            self._begin = header.match.end - self._marker_length
        return header.match is not None

    def _find_end(self, text: str, new: str, before: int) -> tuple[int, int] | None:
        """Return where the body ends, and where its closing marker does."""
        if self._end is None:
            # A marker may have begun in the text before.
            found = self._closers.find(text, max(self._begin, before - self._longest))
            return None if found is None else (found.start(), found.end())
        self._end.feed(new)
        return None if self._end.match is None else self._take_end(self._end)

    def _take_end(self, end: Scanner) -> tuple[int, int]:
        assert end.match is not None
        self._captures = {**self._captures, **end.match.groups}
        begin = self._begin
        return begin + end.match.start, begin + end.match.end

    def _signals(self, body: str) -> Sequence[Signal]:
        try:
            value = self._region.content.parse(body)
            calls = self._region.transform.calls(value, self._captures, self._tools)
        except (ValueError, RecursionError):
            return _REJECTED
        signals: list[Signal] = []
        for name, arguments in calls:
            signals += [CallStarted(name=name), CallArguments(json=arguments), CallEnded(is_complete=True)]
        return [*signals, BodyEnded()]
