"""A call that begins in a thought: whether it counts is known when the thought is closed, or the answer is
over.
"""

from collections.abc import Collection, Sequence
from typing import Literal

from mlxctl.parsers.declarations import (
    WHITESPACE,
    BodyEnded,
    BodyReader,
    BodyRejected,
    CallStarted,
    Signal,
    ToolParser,
)
from mlxctl.parsers.markers import MarkerSet
from mlxctl.parsers.schemas import ToolSchemas

Verdict = Literal["undecided", "quoted", "no call"]


class ThoughtCall:
    """Follows the text of a thought from a call's marker on, without consuming it.

    `marker_end` is where the marker ends in the buffer, which grows and is otherwise left as it is;
    `closer_at` and `closer_length` say where the thought is closed, once the verdict is "quoted". Of the tool
    parser's markers, none behind a call is text.
    """

    def __init__(
        self,
        body: BodyReader,
        tools: ToolSchemas,
        parser: ToolParser,
        *,
        closers: Collection[str],
        marker_end: int,
    ) -> None:
        self.marker_end = marker_end
        self.closer_at = -1
        self.closer_length = 0
        self._body = body
        self._tools = tools
        self._closers = MarkerSet(closers)
        self._call_openers, self._call_closers = parser.openers, parser.closers
        self._searched = marker_end
        self._read_to = marker_end
        self._is_over = False
        self._is_offered = False
        self._has_call = False

    def read(self, buffer: str) -> Verdict:
        """Look at what has come: "quoted" when the thought is closed, "no call" when there is no call behind
        the marker.
        """
        found = self._closers.find(buffer[self._searched :])
        if found is not None:
            self.closer_at, self.closer_length = self._searched + found.start(), len(found[0])
            return "quoted"
        self._searched += self._closers.certain_length(buffer[self._searched :])
        self._follow(buffer)
        if self._is_offered or not self._is_over:
            return "undecided"
        # A call of an unknown tool counts only at the end of the answer.
        return (
            "undecided"
            if self._has_call and self._may_end(buffer[self._read_to :].lstrip(WHITESPACE))
            else "no call"
        )

    def counts_at_end(self, buffer: str) -> bool:
        """Whether the answer, which ends here in an open thought, has called something."""
        if not self._is_over and not self._is_offered:
            self._take(self._body.finish(buffer[self._read_to :]))
        return self._has_call

    def _may_end(self, rest: str) -> bool:
        """Whether the answer may be over with what stands behind the call: the block's end, or another call."""
        while closer := next(filter(rest.startswith, self._call_closers), ""):
            rest = rest[len(closer) :].lstrip(WHITESPACE)
        may_come = any(marker.startswith(rest) for marker in (*self._call_closers, *self._call_openers))
        return may_come or rest.startswith(tuple(self._call_openers))

    def _follow(self, buffer: str) -> None:
        while not self._is_over and not self._is_offered:
            end, signals = self._body.read(buffer, self._read_to)
            self._read_to = end
            if not signals:
                return
            self._take(signals)

    def _take(self, signals: Sequence[Signal]) -> None:
        for signal in signals:
            match signal:
                case CallStarted():
                    self._has_call = True
                    self._is_offered = self._is_offered or self._tools.may_call(signal.name)
                case BodyEnded() | BodyRejected():
                    self._is_over = True
                case _:
                    pass
