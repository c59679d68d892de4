"""Questions that were sent, as the up and down keys walk through them. Pure."""


class InputHistory:
    """Keeps what was sent, oldest first, and the draft that was in the input before browsing."""

    def __init__(self) -> None:
        self._sent: list[str] = []
        self._place = 0
        self._draft = ""

    @property
    def is_browsing(self) -> bool:
        """Whether an earlier question is in the input, not the draft."""
        return self._place < len(self._sent)

    @property
    def position(self) -> str:
        """Where browsing is, for people: `2 of 5`."""
        return f"{self._place + 1} of {len(self._sent)}"

    def add(self, text: str) -> str:
        """Remember what was sent and end browsing; returns the draft that was left for it."""
        draft = self._draft if self.is_browsing else ""
        if not self._sent or self._sent[-1] != text:
            self._sent.append(text)
        self._place = len(self._sent)
        self._draft = ""
        return draft

    def older(self, current: str) -> str | None:
        """Return the question before; None at the first.

        `current` is kept as the draft when browsing begins.
        """
        if self._place == 0:
            return None
        if self._place == len(self._sent):
            self._draft = current
        self._place -= 1
        return self._sent[self._place]

    def newer(self) -> str | None:
        """Return the question after, at last the draft; None when there is nothing after."""
        if self._place == len(self._sent):
            return None
        self._place += 1
        return self._draft if self._place == len(self._sent) else self._sent[self._place]
