"""JSON arguments of one call, streamed verbatim."""

from mlxctl.formats.parsers.declarations import BodyEnded, CallArguments, CallEnded, Signal
from mlxctl.formats.parsers.json_value import JsonValueScanner, is_json_object


class JsonArguments:
    """Parses one object; `is_whole` after its end.

    Text that is no JSON ends the call and the block.
    """

    def __init__(self) -> None:
        self._scanner = JsonValueScanner()
        self.is_whole = False

    def read(self, text: str, at: int) -> tuple[int, tuple[Signal, ...]]:
        """Parse from `at` on; return the new position and signals.

        The last signal at the arguments' end is CallEnded, or BodyEnded after it.
        """
        end = self._scanner.scan(text, at)
        more: tuple[Signal, ...] = (CallArguments(json=text[at:end]),) if end > at else ()
        if self._scanner.is_broken:
            # A marker follows instead of the last brackets.
            ended = CallEnded(is_complete=False, lacks_only_end=text[end] == "<")
            return end, (*more, ended, BodyEnded())
        if not self._scanner.is_whole:
            return end, more
        self.is_whole = True
        return end, (*more, CallEnded(is_complete=is_json_object(self._scanner.text)))
