"""What was typed before, as the up and down keys walk through it. Pure."""


class InputHistory:
    """Keeps what was sent, oldest first, and the draft that was left to look back."""

    def __init__(self) -> None:
        self._sent: list[str] = []
        self._place = 0
        self._draft = ""

    def add(self, text: str) -> None:
        """Remember what was sent, and be at the end again."""
        if not self._sent or self._sent[-1] != text:
            self._sent.append(text)
        self._place = len(self._sent)
        self._draft = ""

    def older(self, current: str) -> str | None:
        """Return the text before; None at the beginning. `current` is kept as the draft when looking back begins."""
        if self._place == 0:
            return None
        if self._place == len(self._sent):
            self._draft = current
        self._place -= 1
        return self._sent[self._place]

    def newer(self) -> str | None:
        """Return the text after, at last the draft; None when there is nothing after."""
        if self._place == len(self._sent):
            return None
        self._place += 1
        return self._draft if self._place == len(self._sent) else self._sent[self._place]
