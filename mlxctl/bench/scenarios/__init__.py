"""The scenarios: each asks one question about a server, in rounds."""

from typing import Any, Protocol

from mlxctl.bench.figures import Chart, Figure, Sample
from mlxctl.bench.prompts import Prompts
from mlxctl.bench.scenarios.agents import Agents
from mlxctl.bench.scenarios.arrivals import Arrivals
from mlxctl.bench.scenarios.burst import Burst
from mlxctl.bench.scenarios.contention import Contention
from mlxctl.bench.scenarios.latency import Latency
from mlxctl.bench.scenarios.mixed import Mixed
from mlxctl.bench.scenarios.prefix import Prefix
from mlxctl.bench.scenarios.throughput import Throughput
from mlxctl.bench.target import BenchTarget

__all__ = [
    "Agents",
    "Arrivals",
    "Burst",
    "Chart",
    "Contention",
    "Latency",
    "Mixed",
    "Prefix",
    "Sample",
    "Scenario",
    "Throughput",
]


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

    async def measure(self, target: BenchTarget, prompts: Prompts, key: str) -> Sample:
        """Run one round; `key` is different in every round and the same for both targets of it.

        A figure that could not be measured in this round is left out. Raises MlxctlError when the server
        fails.
        """
