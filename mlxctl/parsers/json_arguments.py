"""The arguments of one call as a JSON object that is passed on verbatim while it arrives."""

from mlxctl.parsers.declarations import BodyEnded, CallArguments, CallEnded, Signal
from mlxctl.parsers.json_value import JsonValueScanner, is_json_object


class JsonArguments:
    """Reads one object. `is_whole` once its end was read and said; what is no JSON ends call and body."""

    def __init__(self) -> None:
        self._scanner = JsonValueScanner()
        self.is_whole = False

    def read(self, text: str, at: int) -> tuple[int, tuple[Signal, ...]]:
        """Read on; the last signal is CallEnded, or BodyEnded behind it, where the arguments are over."""
        end = self._scanner.scan(text, at)
        more: tuple[Signal, ...] = (CallArguments(json=text[at:end]),) if end > at else ()
        if self._scanner.is_broken:
            return end, (*more, CallEnded(is_complete=False), BodyEnded())
        if not self._scanner.is_whole:
            return end, more
        self.is_whole = True
        return end, (*more, CallEnded(is_complete=is_json_object(self._scanner.text)))
