"""What every scenario is: figures that it measures, and one round of measuring a target."""

from dataclasses import dataclass
from typing import Any, Protocol

from mlxctl.bench.figures import Figure
from mlxctl.bench.prompts import Prompts
from mlxctl.bench.target import Target

Sample = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Bars to draw: each is a label and the figure behind it."""

    title: str
    bars: tuple[tuple[str, str], ...]


class Scenario(Protocol):
    """One question about a server. Frozen; the same one measures every target."""

    @property
    def name(self) -> str:
        """Return what it is called on the command line."""

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Return everything that a round may measure."""

    @property
    def charts(self) -> tuple[Chart, ...]:
        """Return what is worth a image."""

    @property
    def settings(self) -> dict[str, Any]:
        """Return what a person chose, as stored with the result."""

    async def measure(self, target: Target, prompts: Prompts, key: str) -> Sample:
        """Run one round; `key` is different in every round and the same for both targets of it.

        A figure that could not be measured in this round is left out. Raises MlxctlError when the server
        fails.
        """
