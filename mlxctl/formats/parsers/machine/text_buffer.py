"""The unread and the undecided text of an answer."""

from mlxctl.formats.parsers.declarations import WHITESPACE


class TextBuffer:
    """The unread text of one answer.

    `offset` is the position of its first character in the generated text; text of the prompt's tail has
    negative positions. `trim_next` are characters to drop at the start of what follows. `held` is text that
    was read and is neither visible text nor a call yet; it began at `held_start`.
    """

    __slots__ = ("_held", "_num_spaces", "_spaces", "held_start", "offset", "text", "trim_next")

    def __init__(self, offset: int) -> None:
        self.text = ""
        self.offset = offset
        self.trim_next = ""
        self.held_start = 0
        self._held: list[str] = []
        self._spaces: list[str] = []
        self._num_spaces = 0

    def __bool__(self) -> bool:
        return bool(self.text)

    @property
    def held(self) -> str:
        """The text that was held."""
        return "".join(self._held)

    def append(self, text: str) -> bool:
        """Add text that has arrived; return whether to read on.

        White space after undecided white space waits until it is as long. A run is read again only when it
        has doubled, so in linear time.
        """
        self._spaces.append(text)
        self._num_spaces += len(text)
        if text.isspace() and self._num_spaces < len(self.text) and self.text[-1].isspace():
            return False
        self.append_spaces()
        return True

    def append_spaces(self) -> None:
        """Add the white space that waits."""
        self.text += "".join(self._spaces)
        self._spaces.clear()
        self._num_spaces = 0

    def consume(self, length: int) -> str:
        """Remove and return the first `length` characters."""
        text, self.text = self.text[:length], self.text[length:]
        self.offset += length
        return text

    def trim(self) -> None:
        """Drop the characters of `trim_next` that have arrived."""
        if self.trim_next and self.text:
            self.consume(len(self.text) - len(self.text.lstrip(self.trim_next)))
            if self.text:
                self.trim_next = ""

    def hold(self, length: int) -> None:
        """Move the first `length` characters to the held text."""
        if not self._held:
            self.held_start = self.offset
        self._held.append(self.consume(length))

    def clear_held(self) -> None:
        """Drop the held text."""
        self._held.clear()

    def put_back(self, text: str) -> None:
        """Put back text that was consumed last."""
        self.text = text + self.text
        self.offset -= len(text)

    def return_trailing_space(self) -> None:
        """Put white space at the held text's end back."""
        held = self.held
        self.put_back(held[len(held.rstrip(WHITESPACE)) :])
