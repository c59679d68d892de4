"""Who is told how far probing is."""

from typing import Protocol

from mlxctl.stores import Finding


class Watcher(Protocol):
    """Told from the event loop's thread; must not take long."""

    def began(self, model: str, num_steps: int) -> None:
        """A model is looked at; it will be asked in so many steps."""

    def asks(self, what: str) -> None:
        """The next step has begun."""

    def heard(self, num_tokens: int) -> None:
        """The model has said so many more tokens."""

    def found(self, finding: Finding) -> None:
        """A question was answered."""

    def ended(self) -> None:
        """The model is done with, whatever came of it."""


class SilentWatcher:
    """Tells nobody."""

    def began(self, model: str, num_steps: int) -> None:
        """Say nothing."""

    def asks(self, what: str) -> None:
        """Say nothing."""

    def heard(self, num_tokens: int) -> None:
        """Say nothing."""

    def found(self, finding: Finding) -> None:
        """Say nothing."""

    def ended(self) -> None:
        """Say nothing."""
