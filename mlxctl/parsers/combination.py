"""One tool parser that reads the formats of several: a model that was asked for calls in one way may make
them in its own.
"""

from collections.abc import Sequence
from dataclasses import replace

from mlxctl.parsers.declarations import BodyReader, Opening, ToolParser


def combined(first: ToolParser, others: Sequence[ToolParser]) -> ToolParser:
    """Return the first parser, which reads what begins with a marker of the others as they do.

    Calls are forced in its own way.
    """
    readers = {opener: parser for parser in reversed((first, *others)) for opener in parser.openers}
    if readers.keys() == first.openers:
        return first

    def open_body(opening: Opening) -> BodyReader:
        reader = readers.get(opening.marker, first).open_body
        assert reader is not None, "a parser with markers has a reader"
        return reader(opening)

    return replace(
        first,
        open_body=open_body,
        other_openers=tuple(sorted(readers.keys() - {first.opener})),
        other_closers=tuple(
            sorted(first.closers.union(*(parser.closers for parser in others)) - {first.closer})
        ),
        inner_markers=tuple(
            sorted({*first.inner_markers, *(mark for parser in others for mark in parser.inner_markers)})
        ),
    )
