"""Interface of rules for the texts that models read and write."""

from collections.abc import Callable
from typing import Any, Literal, Protocol


class TextFilter(Protocol):
    """Filters one text that comes in pieces."""

    @property
    def verdict(self) -> str | None:
        """The action taken, None without a match; "refused" ends the text."""

    @property
    def holds_back(self) -> bool:
        """Whether text is held back, which could become a match."""

    def feed(self, text: str) -> str:
        """Take the next piece, and return what may be sent."""

    def finish(self) -> str:
        """Return the text that was held back."""


class Screening(Protocol):
    """What rules did with the texts of a request.

    `content` is the request with its allowed texts, None where it is unchanged.
    """

    @property
    def content(self) -> Any: ...
    @property
    def verdict(self) -> str | None: ...


class TextRules(Protocol):
    """Rules for the texts of requests and answers, by model."""

    def applies(self, where: Literal["input", "output"], model: str) -> bool:
        """Whether there are rules for what the model reads or writes."""

    @property
    def screen(self) -> Callable[[Any], Screening]:
        """Check of a packed request or a text.

        For a preparation process. It raises GuardrailMatched, InvalidRequest.
        """

    def text_filter(self) -> TextFilter:
        """Return a filter for one text of an answer."""
