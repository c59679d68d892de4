"""Stop strings, held back as long as they may still come."""

from collections.abc import Sequence


class StopStrings:
    """Looks for stop strings in one stretch of visible text, across any chunking.

    The match that is complete first wins; of several that are complete at the same character, the longest.
    `held` is text that may be the beginning of a stop string and is not passed on yet.
    """

    __slots__ = ("_stops", "held")

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self.held = ""

    def __bool__(self) -> bool:
        return bool(self._stops)

    def feed(self, text: str) -> tuple[str, str | None]:
        """Take more text; return what can be passed on, and the stop string that was found, if one was."""
        text = self.held + text
        found = min(
            ((start + len(stop), start, stop) for stop in self._stops if (start := text.find(stop)) >= 0),
            default=None,
        )
        if found is not None:
            self.held = ""
            return text[: found[1]], found[2]
        certain = min(_certain_length(text, stop) for stop in self._stops)
        self.held = text[certain:]
        return text[:certain], None

    def release(self) -> str:
        """The stretch is over: give back what was held."""
        held, self.held = self.held, ""
        return held


def _certain_length(text: str, stop: str) -> int:
    """How much of the text cannot belong to a stop string that is still to be completed."""
    at = text.find(stop[0], max(0, len(text) - len(stop) + 1))
    while at >= 0 and not stop.startswith(text[at:]):
        at = text.find(stop[0], at + 1)
    return at if at >= 0 else len(text)
