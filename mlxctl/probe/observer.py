"""Interface for progress of probing."""

from typing import Protocol

from mlxctl.state.stores import Finding


class ProbeObserver(Protocol):
    """Called on the event loop's thread; must return quickly."""

    def model_started(self, model: str, num_steps: int) -> None:
        """Called when the probe of a model begins."""

    def step_started(self, title: str) -> None:
        """Called when a step of the probe begins."""

    def tokens_generated(self, num_tokens: int) -> None:
        """Called when the model has generated further tokens."""

    def found(self, finding: Finding) -> None:
        """A question was answered."""

    def ended(self) -> None:
        """Probing of the model has ended, with or without success."""


class NullObserver:
    """Observer that ignores all progress."""

    def model_started(self, model: str, num_steps: int) -> None:
        pass

    def step_started(self, title: str) -> None:
        pass

    def tokens_generated(self, num_tokens: int) -> None:
        pass

    def found(self, finding: Finding) -> None:
        pass

    def ended(self) -> None:
        pass
