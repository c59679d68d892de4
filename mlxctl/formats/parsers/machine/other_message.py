"""Drops messages to recipients other than the user.

Such a message begins with a header. A header without an end is text.
"""

import re

from mlxctl.formats.parsers.declarations import ThinkingParser, ToolParser
from mlxctl.formats.parsers.machine.text_buffer import TextBuffer
from mlxctl.formats.parsers.markers import MarkerSet

# A header is shorter: the recipient's name and few control tokens.
_MAX_HEADER_CHARS = 256


class OtherMessageReader:
    """Parses the dropped messages of one answer from the machine's buffer.

    `is_open` is true from a header's opener to the end of the message. `tokens` match the control tokens of
    calls, `cut_markers` find the beginning of a marker at the answer's end.
    """

    def __init__(
        self,
        buffer: TextBuffer,
        thinking: ThinkingParser,
        tools: ToolParser,
        *,
        tokens: re.Pattern[str],
        cut_markers: MarkerSet,
    ) -> None:
        self.is_open = False
        self._buffer = buffer
        self._tokens = tokens
        self._cut_markers = cut_markers
        self._in_header = False
        self._is_prompted = False
        self._ends = frozenset(thinking.header_ends)
        markers = thinking.markers | tools.openers | tools.closers
        self._closers = thinking.closers | tools.closers
        self._content_ends = MarkerSet(markers)
        self._header_markers = MarkerSet(markers | self._ends)

    def open(self, *, is_prompted: bool) -> None:
        """Begin a message after its opener.

        The opener may be the end of the prompt.
        """
        self.is_open = self._in_header = True
        self._is_prompted = is_prompted

    def reopen(self, opener: str) -> None:
        """Begin a held message that is no call.

        Its header returns to the buffer, because it may be text; the part of the opener that the model
        generated belongs to it if the prompt has the rest.
        """
        held, start = self._buffer.held, self._buffer.held_start
        self.open(is_prompted=start < 0)
        if any(end in held for end in self._ends):
            self._in_header = False
        else:
            self._buffer.put_back(held[-start:] if start < 0 else held.partition(opener)[2])

    def advance(self) -> bool:
        """Parse on in the buffer; return whether to continue."""
        return self._advance_header() if self._in_header else self._advance_content()

    def finish(self) -> None:
        """Drop what is left at the answer's end, unless it is text.

        One word may be a recipient that was cut off, and text has no control tokens.
        """
        text = self._buffer.text
        has_tokens = self._cut_markers.partial_length(text) or self._tokens.search(text)
        is_text = len(text.split()) > 1 or (self._is_prompted and not self._ends)
        if not self._in_header or has_tokens or not is_text:
            self._buffer.consume(len(text))

    def _advance_header(self) -> bool:
        text = self._buffer.text
        marker = self._header_markers.find(text)
        if marker is None:
            self.is_open = len(text) <= _MAX_HEADER_CHARS
            return not self.is_open
        if marker[0] in self._ends:
            self._in_header = False
            self._buffer.consume(marker.end())
            return True
        is_text = not self._ends and marker[0] in self._closers
        self._buffer.consume(0 if is_text else marker.start())
        self.is_open = False
        return True

    def _advance_content(self) -> bool:
        text = self._buffer.text
        marker = self._content_ends.find(text)
        self._buffer.consume(self._content_ends.certain_length(text) if marker is None else marker.start())
        self.is_open = marker is None
        return not self.is_open
