"""A body reader for formats whose calls are only known once the whole block is there."""

from collections.abc import Callable, Sequence

from mlxctl.parsers.declarations import BodyEnded, BodyRejected, CallArguments, CallEnded, CallStarted, Signal
from mlxctl.parsers.markers import MarkerSet

Calls = Sequence[tuple[str, str]]


class WholeBodyReader:
    """Waits for the closing marker, or the end of the stream, and lets `parse` turn the body into calls.

    `parse(body)` gives (name, arguments as JSON text) for each call; nothing, or a ValueError, says that it
    is no call. An empty closer means that the body goes on to the end of the stream. The closing marker
    itself is left to the machine.
    """

    def __init__(self, closer: str, parse: Callable[[str], Calls]) -> None:
        self._closer = MarkerSet((closer,))
        self._parse = parse
        self._body: list[str] = []

    def read(self, text: str, start: int) -> tuple[int, Sequence[Signal]]:
        """Read up to the closing marker, leaving unread what may be its beginning."""
        text = text[start:]
        if closing := self._closer.find(text):
            return start + closing.start(), self.finish(text[: closing.start()])
        certain = self._closer.certain_length(text)
        self._body.append(text[:certain])
        return start + certain, ()

    def finish(self, rest: str) -> Sequence[Signal]:
        """Parse what there is."""
        try:
            calls = self._parse("".join(self._body) + rest)
        except ValueError:
            calls = ()
        signals: list[Signal] = []
        for name, arguments in calls:
            signals += [CallStarted(name=name), CallArguments(json=arguments), CallEnded(is_complete=True)]
        return [*signals, BodyEnded() if signals else BodyRejected()]
